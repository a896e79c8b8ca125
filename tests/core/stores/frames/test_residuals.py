"""What is foretold of a frame and taken away comes back, by both engines alike, and from outside only where it fits."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array._stores.frames import residuals
from compressed_array._stores.frames.groups import ZSTD
from compressed_array.errors import CorruptPayloadError
from core_helpers.arrays import assert_same
from core_helpers.streams import check_store

needs_zstd = pytest.mark.skipif(not ca.has_zstd(), reason="zstd is missing")


def camera(count: int, dtype: str = "u1", side: int = 32) -> np.ndarray[Any, Any]:
    """A scene that moves, under noise in which no two bytes follow each other as two before."""
    rng, (y, x) = np.random.default_rng(0), np.mgrid[:side, :side]
    phase = np.arange(count)[:, None, None] / 5
    smooth = 120 + 80 * np.sin(x / 30 + phase) * np.cos(y / 40 - phase)
    return np.rint(smooth + rng.normal(0, 2, (count, side, side))).astype(dtype)


@given(st.data())
def test_what_is_taken_comes_back(data: st.DataObject) -> None:
    itemsize = data.draw(st.sampled_from([1, 2, 3, 4, 8]))
    count = data.draw(st.integers(1, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    references = [np.zeros(count * itemsize, np.uint8), rng.integers(0, 256, count * itemsize).astype(np.uint8)]
    frame = rng.integers(0, 256, count * itemsize).astype(np.uint8)
    foretells, number = data.draw(
        st.sampled_from([(residuals.NEIGHBOUR, data.draw(st.integers(1, frame.size))), (residuals.REFERENCE, 1)])
    )
    prediction = residuals.prediction_code(foretells, number, itemsize)
    assert residuals.is_sound(prediction, frame.size, [r.size for r in references])
    left, back = residuals.subtract_prediction(frame, prediction, references), np.empty_like(frame)
    residuals.add_prediction(left, prediction, references, back)
    np.testing.assert_array_equal(back, frame)
    record = np.frombuffer(residuals.code_bytes(prediction) + b"\x28rest", np.uint8)
    assert residuals.split(record)[0] == prediction
    assert residuals.split(record)[1].tobytes() == b"\x28rest"


@needs_zstd
@pytest.mark.parametrize("dtype", ["u1", "<u2", "<u4"])
def test_cameras_take_less_than_by_any_codec_that_sees_bytes(dtype: str) -> None:
    plain = camera(1200, dtype)  # enough for a segment that is not full to weigh little
    array = ca.compress(plain, item_ndim=2)
    assert array.store._policy.settings.prediction != residuals.NO_PREDICTION
    others = [ca.compress(plain, item_ndim=2, codec=codec).nbytes_stored for codec in ("zstd3", "gzip", "delta-zstd")]
    assert array.nbytes_stored < 0.9 * min(others)
    assert_same(array, plain)
    assert_same(pickle.loads(pickle.dumps(array)), plain)
    check_store(array)


@needs_zstd
@pytest.mark.parametrize("engine", ["kernels", "numpy"])
@pytest.mark.parametrize(
    "head",
    [
        b"\x00\x01",
        b"\x04\x00",
        b"\x05\x01",
        b"\x04\xff\xff\x7f",
        b"\x08\x09",
        b"\x0c\x01",
        b"\x04\xff\xff\xff\xff\xff",
        b"\x04",
        b"",
    ],
)
def test_heads_from_outside_are_checked(head: bytes, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distance of nothing or beyond the frame, an element that does not divide it, a reference that is not there."""
    from compressed_array._stores.frames import checks
    from compressed_array.codecs import _changes

    if engine == "numpy":
        monkeypatch.setattr(checks, "native", lambda name: None)
    elif not ca.has_numba():
        pytest.skip("there are no kernels here")
    frame = np.arange(15, dtype=np.uint8)
    for good, start in ((True, b"\x04\x03"), (False, head)):
        body = start + (bytes(ca.get_codec("zstd1").encode(frame)) if len(start) > 1 else b"")
        data = np.frombuffer(_changes.varint(len(body) << 2 | ZSTD) + body, np.uint8)
        assert checks.is_valid_group(data, False, 1, frame.size, np.array([15])) is good


def test_a_record_that_is_empty_is_corrupt() -> None:
    with pytest.raises(CorruptPayloadError):
        residuals.split(np.empty(0, np.uint8))
