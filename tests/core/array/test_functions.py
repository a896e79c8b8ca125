"""Every numpy function is classified, and gives on a compressed array what it gives on the plain one."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing.overrides import get_overridable_numpy_array_functions

import compressed_array as ca
from compressed_array._array.functions import HANDLED, METHODS, qualified_name
from compressed_array._array.numpy_functions import DECODED, IN_PLACE, REFUSED_FUNCTIONS, SHAPED
from compressed_array._runtime import chunks
from core_helpers.arrays import assert_same, plain

pytestmark = pytest.mark.same_everywhere

for _module in ("char", "fft", "lib.recfunctions", "ma", "polynomial", "strings"):
    importlib.import_module(f"numpy.{_module}")  # their functions can be overridden too, once they are there

X = np.random.default_rng(0).integers(0, 5, (4, 3, 6, 5)).astype(np.float32)
COMPLEX = X + 1j * X[::-1]
INTEGERS = X.astype(np.uint8)


def test_every_function_numpy_lets_us_override_is_classified() -> None:
    known = DECODED | IN_PLACE | set(REFUSED_FUNCTIONS) | SHAPED | {qualified_name(f) for f in [*HANDLED, *METHODS]}
    new = {qualified_name(f) for f in get_overridable_numpy_array_functions()} - known
    assert not new, "numpy has functions nobody has looked at; put each in a list of _numpy_functions.py"


def test_no_function_is_in_two_lists() -> None:
    own = {qualified_name(f) for f in [*HANDLED, *METHODS]}
    lists = [DECODED, IN_PLACE, set(REFUSED_FUNCTIONS), SHAPED, own]
    assert len(set().union(*lists)) == sum(map(len, lists))


def test_a_function_that_nobody_has_classified_is_refused() -> None:
    def newcomer() -> None: ...

    newcomer.__module__ = "numpy"
    with pytest.raises(ca.UnsupportedOperationError, match="newcomer"):
        ca.zeros((2, 2)).__array_function__(newcomer, (), (), {})


CALLS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda a: np.sum(a),
    "sum axis": lambda a: a.sum(axis=1),
    "sum last": lambda a: np.sum(a, -1, np.float64),
    "sum keepdims": lambda a: np.sum(a, axis=(0, 2), keepdims=True),
    "sum initial": lambda a: np.sum(a, initial=5),
    "sum where": lambda a: np.sum(a, where=a > 1),
    "sum out": lambda a: np.sum(a, axis=0, out=np.zeros(a.shape[1:], a.dtype)),
    "prod": lambda a: np.prod(a[:1, :1, :2]),
    "max": np.max,
    "amax": lambda a: np.amax(a, (0, 1)),
    "min": lambda a: a.min(axis=0),
    "amin": np.amin,
    "any": lambda a: np.any(a, axis=2),
    "all": lambda a: np.all(a, axis=(0, 1, 2, 3)),
    "ptp": lambda a: np.ptp(a, axis=1),
    "mean": np.mean,
    "mean axes": lambda a: np.mean(a, axis=(1, 2)),
    "mean keepdims": lambda a: a.mean(0, keepdims=True),
    "mean where": lambda a: np.mean(a, where=a > 0),
    "std": np.std,
    "std ddof": lambda a: np.std(a, axis=0, ddof=1),
    "var": lambda a: a.var(axis=-1),
    "var correction": lambda a: np.var(a, correction=1),
    "var dtype": lambda a: np.var(a, dtype=np.float64),
    "argmax": np.argmax,
    "argmin": lambda a: a.argmin(),
    "argmax axis": lambda a: np.argmax(a, axis=2, keepdims=True),
    "count_nonzero": np.count_nonzero,
    "count_nonzero axis": lambda a: np.count_nonzero(a, axis=(0, 3)),
    "add.reduce": np.add.reduce,
    "maximum.reduce": lambda a: np.maximum.reduce(a, axis=(0, 2)),
    "add.accumulate": np.add.accumulate,
    "add.outer": lambda a: np.add.outer(a[0, 0, 0], a[0, 0, 0]),
    "logical_or.reduce": lambda a: np.logical_or.reduce(a, axis=None),
    "bitwise": lambda a: a == a[::-1],
    "arithmetic": lambda a: (a + 1) * 2 - a / 3,
    "reflected": lambda a: 1 - a,
    "matmul": lambda a: a @ a.swapaxes(-1, -2),
    "negative": lambda a: -a,
    "divmod": lambda a: divmod(a, 2),
    "comparison": lambda a: a < 2,
    "two": lambda a: np.maximum(a, a[::-1]),
    "transpose": np.transpose,
    "transpose axes": lambda a: np.transpose(a, (1, 0, 2, 3)),
    "T": lambda a: a.T,
    "mT": lambda a: a.mT,
    "swapaxes": lambda a: np.swapaxes(a, 0, 1),
    "swapaxes items": lambda a: a.swapaxes(1, 3),
    "moveaxis": lambda a: np.moveaxis(a, 0, 1),
    "moveaxis last": lambda a: np.moveaxis(a, 0, -1),
    "rollaxis": lambda a: np.rollaxis(a, 1),
    "reshape": lambda a: np.reshape(a, (12, 6, 5)),
    "reshape flat": lambda a: a.reshape(-1),
    "reshape split": lambda a: a.reshape(2, 2, 3, 6, 5),
    "reshape F": lambda a: np.reshape(a, (12, 30), "F"),
    "ravel": np.ravel,
    "flatten": lambda a: a.flatten(),
    "squeeze": lambda a: np.squeeze(a[:1]),
    "squeeze item": lambda a: np.squeeze(a[..., :1], axis=-1),
    "expand_dims": lambda a: np.expand_dims(a, 0),
    "expand_dims last": lambda a: np.expand_dims(a, -1),
    "atleast_2d": np.atleast_2d,
    "flip": np.flip,
    "flip axis": lambda a: np.flip(a, 1),
    "fliplr": np.fliplr,
    "rot90": np.rot90,
    "split": lambda a: np.split(a, 2),
    "array_split": lambda a: np.array_split(a, 3, axis=2),
    "hsplit": lambda a: np.hsplit(a, 3),
    "unstack": lambda a: np.unstack(a, axis=1),
    "matrix_transpose": np.matrix_transpose,
    "take": lambda a: np.take(a, [0, 2], axis=1),
    "take flat": lambda a: np.take(a, [5, 9]),
    "take clip": lambda a: a.take([0, 99], axis=0, mode="clip"),
    "real": np.real,
    "imag": np.imag,
    "size": lambda a: np.size(a, 1),
    "shape": np.shape,
    "ndim": np.ndim,
    "concatenate": lambda a: np.concatenate([a, a], axis=1),
    "stack": lambda a: np.stack([a, a]),
    "where": lambda a: np.where(a > 2, a, 0),
    "clip": lambda a: np.clip(a, 1, 3),
    "sort": lambda a: np.sort(a, axis=2),
    "argsort": lambda a: a.argsort(axis=-1),
    "unique": np.unique,
    "cumsum": lambda a: a.cumsum(1),
    "diff": np.diff,
    "tile": lambda a: np.tile(a, 2),
    "repeat": lambda a: a.repeat(2, 0),
    "pad": lambda a: np.pad(a, 1),
    "einsum": lambda a: np.einsum("abcd->ad", a),
    "tensordot": lambda a: np.tensordot(a, a, 4),
    "dot": lambda a: a[0, 0].dot(a[0, 0].T),
    "median": np.median,
    "percentile": lambda a: np.percentile(a, 30),
    "norm": np.linalg.norm,
    "histogram": np.histogram,
    "nonzero": np.nonzero,
    "isin": lambda a: np.isin(a, [1, 2]),
    "nanmax": np.nanmax,
    "allclose": lambda a: np.allclose(a, a),
    "round": lambda a: a.round(),
    "astype": lambda a: a.astype(np.int16),
    "tolist": lambda a: a.tolist(),
    "tobytes": lambda a: a.tobytes(),
    "item": lambda a: a[0, 0, 0, 0].item(),
    "trace": lambda a: a.trace(),
    "contains": lambda a: (3 in a, 99 in a),
    "zeros_like": np.zeros_like,
    "ones_like": np.ones_like,
    "full_like": lambda a: np.full_like(a, 3),
    "empty_like": lambda a: np.empty_like(a).shape,
    "zeros_like shape": lambda a: np.zeros_like(a, np.int8, shape=(2, 3)),
    "zeros_like plain": lambda a: np.zeros_like(a, subok=False),
    "copy": np.copy,
    "broadcast_to": lambda a: np.broadcast_to(a, (2, 4, 3, 6, 5)),
    "broadcast_arrays": lambda a: np.broadcast_arrays(a, 1),
    "result_type": lambda a: np.result_type(a, np.float64),
    "array_equal": lambda a: (np.array_equal(a, a[::-1]), np.array_equal(a, a)),
    "array_equal shapes": lambda a: np.array_equal(a, a[0]),
    "array_equal plain": lambda a: np.array_equal(plain(a), a),
    "fft": np.fft.fft,
    "choose": lambda a: np.choose(plain(a > 1).astype(int), [a, 0]),
    "iter": lambda a: list(a),
    "len": len,
    "float": lambda a: float(a[0, 0, 0, 0]),
    "bool": lambda a: bool(a[0, 0, 0, 0]),
    "flat": lambda a: list(a.flat)[:9],
    "searchsorted": lambda a: a[0, 0, 0].searchsorted(2),
    "min_scalar_type": np.min_scalar_type,
    "common_type": lambda a: np.common_type(plain(a).astype(float), a) if a.dtype.kind != "b" else 0,
    "conj": lambda a: a.conj(),
    "compress": lambda a: a.compress([1, 0, 1], axis=1),
    "byteswap": lambda a: a.byteswap(),
    "view": lambda a: a.view(),
    "view bytes": lambda a: a.view(np.uint8),
    "diagonal": lambda a: a.diagonal(axis1=2, axis2=3),
    "to_device": lambda a: a.to_device("cpu"),
    "getfield": lambda a: a.getfield(a.dtype),
    "iscomplexobj": np.iscomplexobj,
    "apply_along_axis": lambda a: np.apply_along_axis(np.sum, 0, a),
    "format": lambda a: f"{a[0, 0, 0, 0]:.1f}",
    "dumps": lambda a: __import__("pickle").loads(a.dumps()),
    "device": lambda a: a.device,
}


def assert_like(got: Any, expected: Any) -> None:
    if isinstance(expected, tuple | list) and not isinstance(got, np.ndarray):
        assert type(got) is type(expected) or isinstance(got, tuple)
        assert len(got) == len(expected)
        for one, two in zip(got, expected, strict=True):
            assert_like(one, two)
        return
    got = plain(got)
    assert type(got) is type(expected)
    if isinstance(expected, np.ndarray | np.generic):
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=2e-6 if expected.dtype.itemsize > 2 else 1e-2, atol=1e-5)
    else:
        assert got == expected


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's own, for both arrays alike
@pytest.mark.parametrize("item_ndim", [0, 1, 2, 4])
@pytest.mark.parametrize(
    "data", [X, INTEGERS, COMPLEX, X.astype(np.float16)], ids=["float32", "uint8", "complex64", "float16"]
)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_gives_what_it_gives_on_the_plain_array(
    name: str, data: Any, item_ndim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 300)  # so that every reduction goes through several blocks
    array = ca.compress(data, item_ndim=item_ndim, codec="rle")
    try:
        expected = CALLS[name](data)
    except Exception as error:
        with pytest.raises(type(error)):
            CALLS[name](array)
    else:
        assert_like(CALLS[name](array), expected)
    assert_same(array, data)


@given(st.data())
def test_any_reduction_over_any_axes(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    values = np.random.default_rng(data.draw(st.integers(0, 999))).integers(0, 4, shape).astype(np.int16)
    array = ca.compress(values, item_ndim=data.draw(st.integers(0, len(shape))), codec="none")
    axes = data.draw(st.none() | st.lists(st.integers(0, len(shape) - 1), unique=True).map(tuple))
    name = data.draw(
        st.sampled_from(["sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "count_nonzero"])
    )
    keepdims = data.draw(st.booleans())
    limit = chunks.CHUNK_BYTES
    chunks.CHUNK_BYTES = data.draw(st.sampled_from([1, 20, 100, limit]))
    try:
        assert_like(
            getattr(np, name)(array, axis=axes, keepdims=keepdims),
            getattr(np, name)(values, axis=axes, keepdims=keepdims),
        )
    finally:
        chunks.CHUNK_BYTES = limit


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_of_equals_and_the_first_nan(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 64)
    for seed in range(20):
        values = np.random.default_rng(seed).integers(0, 3, (9, 5)).astype(np.float64)
        if seed % 2:
            values[seed % 9, seed % 5] = values[8, 4] = np.nan
        assert getattr(np, name)(ca.compress(values, codec="none")) == getattr(np, name)(values)


IN_PLACE_CALLS: dict[str, Callable[[Any], Any]] = {
    "iadd": lambda a: a.__iadd__(1),
    "imul view": lambda a: a[1:].__imul__(2),
    "add out": lambda a: np.add(a, 1, out=a),
    "sum out": lambda a: np.sum(a[:, :1], axis=0, out=a[0, :1]),
    "at": lambda a: np.add.at(a, (0, [0, 0, 1]), 1),
    "sort": lambda a: a.sort(axis=2),
    "partition": lambda a: a.partition(2),
    "put": lambda a: a.put([0, 7], 2),
    "np.put": lambda a: np.put(a, [1, 8], 3),
    "place": lambda a: np.place(a, plain(a) > 2, [9]),
    "putmask": lambda a: np.putmask(a, plain(a) > 2, 0),
    "copyto": lambda a: np.copyto(a, plain(a)[::-1].copy()),
    "copyto where": lambda a: np.copyto(a, 1, where=plain(a) > 2),
    "fill": lambda a: a.fill(3),
    "put_along_axis": lambda a: np.put_along_axis(a, np.zeros((4, 3, 6, 1), int), 9, axis=3),
    "byteswap": lambda a: a.byteswap(inplace=True),
    "setfield": lambda a: a.setfield(2, a.dtype),
    "real": lambda a: setattr(a, "real", 2),
    "clip out": lambda a: np.clip(a, 1, 2, out=a),
    "iter": lambda a: [row.__setitem__(0, 1) for row in a],
    "divmod out": lambda a: np.divmod(a, 2, out=(a, None)),
}


@pytest.mark.parametrize("item_ndim", [0, 1, 2])
@pytest.mark.parametrize("name", IN_PLACE_CALLS)
def test_a_call_that_changes_the_array_changes_it_alike(name: str, item_ndim: int) -> None:
    expected, array = INTEGERS.copy(), ca.compress(INTEGERS, item_ndim=item_ndim, codec="rle")
    IN_PLACE_CALLS[name](expected)
    IN_PLACE_CALLS[name](array)
    assert_same(array, expected)


def test_the_diagonal_is_filled() -> None:
    expected, array = INTEGERS[0, 0].copy(), ca.compress(INTEGERS[0, 0], codec="rle")
    for target in (expected, array):
        np.fill_diagonal(target, 8)
    assert_same(array, expected)


OUT_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "clip": lambda a, o: np.clip(a, 1, 3, o),
    "take": lambda a, o: np.take(a, [3, 2, 1, 0], 0, o),
    "take by name": lambda a, o: a.take([3, 2, 1, 0], axis=0, out=o),
    "cumsum": lambda a, o: np.cumsum(a, 0, None, o),
    "round": lambda a, o: np.round(a, 0, o),
    "sum of plain": lambda a, o: np.sum(plain(a)[None], 0, None, o),
    "max": lambda a, o: np.max(a[None], 0, o),
    "mean": lambda a, o: np.mean(a[None], 0, None, o),
    "concatenate": lambda a, o: np.concatenate([a[:2], a[:2]], out=o),
    "add": lambda a, o: np.add(a, 1, o),
    "where": lambda a, o: np.add(a, 1, out=o, where=plain(a) > 1),
    "nanmax": lambda a, o: np.nanmax(a[None], 0, o),
}


@pytest.mark.parametrize("name", OUT_CALLS)
def test_the_answer_goes_where_it_was_asked_to_go(name: str) -> None:
    out, expected = ca.compress(np.ones_like(X), item_ndim=2, codec="rle"), np.ones_like(X)
    OUT_CALLS[name](X, expected)
    OUT_CALLS[name](ca.compress(X, item_ndim=2, codec="rle"), out)
    assert_same(out, expected)


def test_a_function_that_writes_to_what_it_was_given_fails_or_does_it() -> None:
    array = ca.compress(np.array([[np.nan, 1.0]] * 3), codec="none")
    for call in (
        lambda: np.nan_to_num(array, copy=False),
        lambda: array.getfield(np.float64).fill(1),
        lambda: array.to_device("cpu").fill(1),
        lambda: array.astype(float, copy=False).fill(1),
        lambda: np.lib.stride_tricks.sliding_window_view(array, 2, axis=1, writeable=True).fill(1),
    ):
        with pytest.raises(ValueError, match=r"read-only|writeable|WRITEABLE"):
            call()
    records = np.array([(1, 2), (3, 4)], [("a", "i4"), ("b", "f4")])
    target = ca.zeros(2, records.dtype, item_ndim=0)
    np.lib.recfunctions.assign_fields_by_name(target, records)
    assert_same(target, records)
    np.copyto(dst=target, src=records[::-1].copy())
    assert_same(target, records[::-1])


def test_odd_arguments_of_reductions() -> None:
    for values in (X, X.astype(">f2"), X.astype(np.float64), INTEGERS, np.array(5.0)):
        array = ca.compress(values, item_ndim=min(2, values.ndim), codec="none")
        for call in (
            lambda a: np.mean(a, axis=0, keepdims=1),
            lambda a: a.var(axis=0, keepdims=1),
            lambda a: np.ptp(a, axis=0, keepdims=1),
            lambda a: np.var(a, axis=0, dtype=np.float32),
            lambda a: a.std(axis=0, dtype=np.float64),
            lambda a: np.sum(a, axis=0),
            lambda a: np.sum(a, keepdims=True),
            lambda a: np.count_nonzero(a, axis=0),
            np.add.reduce,
            lambda a: a.max(axis=-1),
            lambda a: a[()],
            lambda a: np.mean(a, axis=0),
        ):
            try:
                expected = call(values)
            except Exception as error:
                with pytest.raises(type(error)):
                    call(array)
            else:
                assert_like(call(array), expected)


def test_an_operation_in_place_gives_the_array_itself() -> None:
    array = same = ca.compress(INTEGERS, codec="none")
    array += 1
    assert array is same
    assert np.multiply(array, 2, out=array) is array
    with pytest.raises(TypeError):
        array += 1.5
    assert_same(array, (INTEGERS + 1) * 2)


def test_changes_of_the_grid_stay_lazy() -> None:
    array = ca.compress(X, item_ndim=2, codec="none")
    for lazy in (
        array.transpose(1, 0, 2, 3),
        array.swapaxes(0, 1),
        array.swapaxes(0, 1).reshape(12, 6, 5),
        array.reshape(2, 2, 3, 6, 5),
        array[:1].squeeze(0),
        np.expand_dims(array, 1),
        np.moveaxis(array, 0, 1),
        np.flip(array, 0),
        np.split(array, 2)[1],
        array.view(),
        array.copy(),
        array[None],
    ):
        assert isinstance(lazy, ca.CompressedArray)
        assert lazy.store is array.store
