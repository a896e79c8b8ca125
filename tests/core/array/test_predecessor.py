"""The defects of sb3-extra-buffers' CompressedArray and codecs, none of which is here."""

from __future__ import annotations

import pickle
import threading
import time
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from core_helpers.arrays import assert_same

pytestmark = pytest.mark.same_everywhere

FRAMES = np.random.default_rng(0).integers(0, 3, (6, 40, 30)).astype(np.uint8)


@pytest.mark.parametrize("side", [255, 256, 257, 300, 1000])
def test_item_4_long_runs_do_not_overflow_their_type(codec: str, side: int) -> None:
    frame = np.full((side, side), 7, np.uint8)
    frame[-1, -1] = 8
    array = ca.zeros((2, side, side), np.uint8, codec=codec)
    array[1] = frame
    assert_same(array[1], frame)


def test_item_6_zeros_of_both_signs_stay_apart(codec: str) -> None:
    floats = np.array([[0.0, -0.0, -0.0, 0.0]] * 3, np.float32)
    assert_same(ca.compress(floats, codec=codec), floats)


def test_item_9_a_missing_library_is_an_error_and_not_another_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for module in ("isal", "isal.isal_zlib", "isal.igzip_lib"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ca.CodecUnavailableError, match=r"compressed-array\[isal\]"):
        ca.zeros((2, 100), np.uint8, codec="igzip0")


def test_item_12_the_callers_dicts_are_not_written_to() -> None:
    config = {"id": "gzip", "level": 3}
    dtypes = ca.find_buffer_dtypes((4, 84, 84))
    before = dict(dtypes)
    ca.zeros((2, 100), codec=config)[0] = 1
    ca.zeros((2, 100), codec=dict(config))[0] = 1
    assert config == {"id": "gzip", "level": 3}
    assert dtypes == before


def test_item_18_an_unpickled_array_is_usable(codec: str) -> None:
    back = pickle.loads(pickle.dumps(ca.compress(FRAMES, codec=codec)))
    back[0] = 9
    assert (back[0] == 9).all()
    assert_same(back[1:], FRAMES[1:])


def test_item_18_rows_slices_and_iteration_decode_once(codec: str) -> None:
    array = ca.compress(FRAMES, codec=codec)
    assert_same(array[1:3], FRAMES[1:3])
    assert_same(array[[0, 1]], FRAMES[[0, 1]])
    for got, expected in zip(array, FRAMES, strict=True):
        assert_same(got, expected)
    array[2:4] = FRAMES[4:6]
    assert_same(array[2], FRAMES[4])
    assert_same(array[3], FRAMES[5])
    assert array.sum() == np.concatenate([FRAMES[:2], FRAMES[4:], FRAMES[4:]]).sum()
    assert array.nbytes == FRAMES.nbytes


def test_item_18_a_failed_write_does_not_change_how_the_array_reads(codec: str) -> None:
    array = ca.compress(FRAMES, codec=codec)
    with pytest.raises(ValueError, match="broadcast"):
        array[0] = np.zeros((7, 7), np.uint8)
    assert_same(array, FRAMES)


def test_item_18_a_read_during_a_write_gives_an_item(codec: str) -> None:
    array, bad, stop = ca.compress(FRAMES, codec=codec), [], threading.Event()

    def write() -> None:
        while not stop.is_set():
            array[0] = FRAMES[0]

    writer = threading.Thread(target=write)
    writer.start()
    deadline = time.monotonic() + 0.4
    while time.monotonic() < deadline:
        got: Any = array[0]
        if type(got) is not np.ndarray or got.shape != (40, 30) or not np.array_equal(got, FRAMES[0]):
            bad.append(got)
    stop.set()
    writer.join()
    assert not bad


def test_item_18_integers_of_another_width_are_stored_as_the_arrays(codec: str) -> None:
    array = ca.zeros((2, 40, 30), np.uint8, codec=codec)
    array[1] = FRAMES[1].astype(np.int64)
    assert_same(array[1], FRAMES[1])


@pytest.mark.parametrize("dtype", ["<u2", "<f4", "<f8", "<c16"])
def test_item_21_offsets_are_in_bytes_whatever_the_dtype(codec: str, dtype: str) -> None:
    """Neighbours of several widths of number in one heap do not run into each other."""
    values = np.random.default_rng(0).integers(0, 3, (50, 33)).astype(dtype)
    array = ca.zeros(values.shape, dtype, codec=codec)
    for i in np.random.default_rng(1).permutation(50):
        array[i] = values[i]
    array[::2] = values[::2]
    assert_same(array, values)


def test_item_22_bools_and_shapes_given_as_lists(codec: str) -> None:
    array = ca.zeros([3, 20], bool, codec=codec)
    array[1, ::2] = True
    assert_same(array[1], np.arange(20) % 2 == 0)
    assert ca.find_buffer_dtypes([4, 84, 84]) == ca.find_buffer_dtypes((4, 84, 84))


def test_item_33_a_codec_named_without_a_level_has_the_documented_one() -> None:
    for name, level in {"gzip": 6, "igzip": 1, "zstd": -3, "lz4-frame": 0, "lz4-block": 0}.items():
        if ca.available_codecs()[name].available:
            assert ca.get_codec(name).level == level
            assert ca.get_codec(name) == ca.get_codec({"id": name, "level": level})
    if ca.has_lz4():
        with pytest.raises(ca.CodecLevelError, match="12"):
            ca.get_codec("lz4-block/16")
