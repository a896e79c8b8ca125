"""Law 9 in other libraries: none of them reaches the records; each call is right or refused.

`PYTHONPATH=tests/helpers python tests/neighbours/test_neighbours_reach_no_records.py` prints what becomes of each call.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from core_helpers.calls_through_c import Call, outcomes, print_table, wrong

LIBRARIES = (
    "h5py",
    "pandas",
    "xarray",
    "pyarrow",
    "sklearn",
    "scipy",
    "torch",
    "cv2",
    "numcodecs",
    "zarr",
    "PIL",
    "numba",
)
HAVE = {name for name in LIBRARIES if importlib.util.find_spec(name)}


def h5(x: Any, t: Any, use: Any) -> Any:
    import h5py

    with h5py.File(t.folder / "h5", "w") as file:
        return use(file, x)


def h5_read(file: Any, x: Any, t: Any) -> None:
    file.create_dataset("d", data=np.frombuffer(t.bytes, x.dtype).reshape(x.shape)).read_direct(x)


def h5_write(file: Any, x: Any) -> Any:
    dataset = file.create_dataset("d", x.shape, x.dtype)
    dataset.write_direct(x)
    return dataset[...]


def h5_assign(file: Any, x: Any) -> Any:
    dataset = file.create_dataset("d", x.shape, x.dtype)
    dataset[...] = x
    return dataset[...]


def lib(name: str) -> Any:
    return importlib.import_module(name)


def zarr_of(x: Any) -> Any:
    array = lib("zarr").zeros(shape=x.shape, dtype=x.dtype)
    array[...] = x
    return array[...]


def fitted(x: Any) -> Any:
    model = lib("sklearn.linear_model").LogisticRegression()
    return model.fit(np.arange(len(x) * 2.0).reshape(-1, 2), x).classes_


def mat(x: Any, t: Any) -> Any:
    lib("scipy.io").savemat(t.folder / "v.mat", {"v": x})
    return lib("scipy.io").loadmat(t.folder / "v.mat")["v"]


def numba_first(x: Any) -> Any:
    return lib("numba").njit(lambda v: v.ravel()[0])(x)


TABLES: dict[str, dict[str, Call]] = {
    "h5py": {
        "read_direct(a)": lambda x, t: h5(x, t, lambda file, v: h5_read(file, v, t)),
        "write_direct(a)": lambda x, t: h5(x, t, h5_write),
        "create_dataset(data=a)": lambda x, t: h5(x, t, lambda file, v: file.create_dataset("d", data=v)[...]),
        "dataset[...] = a": lambda x, t: h5(x, t, h5_assign),
        "attrs": lambda x, t: h5(x, t, lambda file, v: (file.attrs.__setitem__("v", v), file.attrs["v"])[1]),
    },
    "pandas": {
        "Series(a)": lambda x, t: lib("pandas").Series(x).to_numpy(),
        "Series(a).sum()": lambda x, t: lib("pandas").Series(x).sum(),
        "DataFrame(a)": lambda x, t: lib("pandas").DataFrame(x).to_numpy(),
        "DataFrame({'v': a})": lambda x, t: lib("pandas").DataFrame({"v": x})["v"].to_numpy(),
        "DataFrame(a).groupby": lambda x, t: lib("pandas").DataFrame({"v": x}).groupby("v").size().to_numpy(),
        "Index(a)": lambda x, t: lib("pandas").Index(x).to_numpy(),
        "Categorical(a)": lambda x, t: lib("pandas").Categorical(x).codes,
        "factorize(a)": lambda x, t: lib("pandas").factorize(x)[0],
        "unique(a)": lambda x, t: lib("pandas").unique(x),
        "isna(a)": lambda x, t: lib("pandas").isna(x),
        "cut(a, 3)": lambda x, t: lib("pandas").cut(x, 3, labels=False),
    },
    "xarray": {
        "DataArray(a)": lambda x, t: lib("xarray").DataArray(x).values,
        "DataArray(a).sum()": lambda x, t: lib("xarray").DataArray(x).sum().item(),
        "Dataset": lambda x, t: lib("xarray").Dataset({"v": (tuple("abcd"[: x.ndim]), x)})["v"].values,
    },
    "pyarrow": {
        "py_buffer(a)": lambda x, t: lib("pyarrow").py_buffer(x).to_pybytes(),
        "array(a)": lambda x, t: lib("pyarrow").array(x).to_pylist(),
        "Tensor.from_numpy(a)": lambda x, t: lib("pyarrow").Tensor.from_numpy(x).to_numpy(),
        "compress(a)": lambda x, t: lib("pyarrow").compress(x, asbytes=True),
        "BufferOutputStream.write(a)": lambda x, t: lib("pyarrow").BufferOutputStream().write(x),
    },
    "sklearn": {
        "LogisticRegression.fit(X, a)": lambda x, t: fitted(x),
        "StandardScaler.fit_transform(a)": lambda x, t: lib("sklearn.preprocessing").StandardScaler().fit_transform(x),
        "LabelEncoder.fit_transform(a)": lambda x, t: lib("sklearn.preprocessing").LabelEncoder().fit_transform(x),
        "accuracy_score(a, b)": lambda x, t: lib("sklearn.metrics").accuracy_score(x, t.other),
        "confusion_matrix(a, a)": lambda x, t: lib("sklearn.metrics").confusion_matrix(x, x),
        "mean_squared_error(a, b)": lambda x, t: lib("sklearn.metrics").mean_squared_error(x, t.other),
        "KMeans.fit(a)": lambda x, t: lib("sklearn.cluster").KMeans(2, random_state=0).fit(x).labels_,
        "train_test_split(a)": lambda x, t: lib("sklearn.model_selection").train_test_split(x, random_state=0),
        "shuffle(a)": lambda x, t: lib("sklearn.utils").shuffle(x, random_state=0),
    },
    "scipy": {
        "stats.mode(a)": lambda x, t: list(lib("scipy.stats").mode(x)),
        "stats.rankdata(a)": lambda x, t: lib("scipy.stats").rankdata(x),
        "stats.ttest_ind(a, b)": lambda x, t: list(lib("scipy.stats").ttest_ind(x, t.other)),
        "stats.describe(a)": lambda x, t: list(lib("scipy.stats").describe(x)),
        "sparse.csr_array(a)": lambda x, t: lib("scipy.sparse").csr_array(x).toarray(),
        "spatial.cKDTree(a)": lambda x, t: lib("scipy.spatial").cKDTree(x).query(np.zeros(x.shape[1:]))[0],
        "spatial.distance.pdist(a)": lambda x, t: lib("scipy.spatial.distance").pdist(x),
        "ndimage.gaussian_filter(a, 1)": lambda x, t: lib("scipy.ndimage").gaussian_filter(x, 1),
        "ndimage.sum_labels": lambda x, t: lib("scipy.ndimage").sum_labels(np.ones(x.shape), x, [3, 4]),
        "signal.convolve(a, a)": lambda x, t: lib("scipy.signal").convolve(x, x),
        "fft.rfft(a)": lambda x, t: lib("scipy.fft").rfft(x),
        "linalg.svdvals(a)": lambda x, t: lib("scipy.linalg").svdvals(x),
        "io.savemat": lambda x, t: mat(x, t),
        "interpolate.interp1d": lambda x, t: lib("scipy.interpolate").interp1d(np.arange(len(x)), x, axis=0)(0.5),
    },
    "torch": {
        "as_tensor(a)": lambda x, t: lib("torch").as_tensor(x).numpy(),
        "tensor(a)": lambda x, t: lib("torch").tensor(x).numpy(),
        "tensor([a, a])": lambda x, t: lib("torch").tensor([x, x]).numpy(),
        "from_numpy(a)": lambda x, t: lib("torch").from_numpy(x).numpy(),
        "from_dlpack(a)": lambda x, t: lib("torch").from_dlpack(x).numpy(),
        "frombuffer(a)": lambda x, t: lib("torch").frombuffer(x, dtype=lib("torch").uint8).numpy(),
        "asarray(a)": lambda x, t: lib("torch").asarray(x).numpy(),
        "default_collate([a, a])": lambda x, t: lib("torch.utils.data").default_collate([x, x]).numpy(),
    },
    "cv2": {
        "resize(a)": lambda x, t: lib("cv2").resize(x, (4, 4)),
        "add(a, a)": lambda x, t: lib("cv2").add(x, x),
        "imencode(a)": lambda x, t: lib("cv2").imencode(".png", x)[1],
        "randu(a)": lambda x, t: lib("cv2").randu(x, 0, 9) is None,
        "blur(b, dst=a)": lambda x, t: lib("cv2").blur(np.ones(x.shape, x.dtype), (3, 3), dst=x) is None,
    },
    "numcodecs": {
        "Zlib().encode(a)": lambda x, t: lib("numcodecs").Zlib().encode(x),
        "Blosc().encode(a)": lambda x, t: lib("numcodecs").Blosc().encode(x),
        "Zlib().decode(..., a)": lambda x, t: lib("numcodecs").Zlib().decode(lib("zlib").compress(t.bytes), x) is None,
        "Delta().encode(a)": lambda x, t: lib("numcodecs").Delta(x.dtype).encode(x),
    },
    "zarr": {"array[...] = a": lambda x, t: zarr_of(x), "array(a)": lambda x, t: lib("zarr").array(x)[...]},
    "PIL": {
        "fromarray(a)": lambda x, t: np.asarray(lib("PIL.Image").fromarray(x)),
        "frombuffer(a)": lambda x, t: lib("PIL.Image").frombuffer("L", (2, 2), x, "raw", "L", 0, 1).tobytes(),
    },
    "numba": {"njit(f)(a)": lambda x, t: numba_first(x)},
}
CALLS = {
    f"{library}: {name}": call for library, table in TABLES.items() if library in HAVE for name, call in table.items()
}


@pytest.mark.parametrize(
    "kind", ["labels", "rows", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("one cell", "a buffer"))]
)
def test_every_call_of_a_neighbour_is_right_or_refused(kind: str) -> None:
    if not HAVE:
        pytest.skip("none of the libraries is here")
    answers = outcomes(__file__, kind, list(CALLS))
    assert list(answers) == list(CALLS)
    assert not wrong(answers)


if __name__ == "__main__":
    print_table(__file__)
