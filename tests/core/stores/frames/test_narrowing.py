"""Rows of a few numbers: packed by bits, found again bit for bit, and refused from outside where they do not fit."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import compressed_array as ca
from compressed_array._array import pickling
from compressed_array._runtime.loading import native
from compressed_array._runtime.payloads import Payloads
from compressed_array._stores.frames import bitpack, checks
from compressed_array._stores.frames.groups import BITPACKED, PLAIN_ROWS, TAG_BITS, WORD_SIZES
from compressed_array._stores.frames.upkeep import Upkeep
from compressed_array.errors import CorruptPayloadError
from core_helpers.arrays import assert_same
from core_helpers.streams import check_store, pair

ROWS = st.tuples(st.integers(1, 64), st.integers(1, 30))
DTYPES = ["u1", "i2", "<f2", "<f4", ">f4", "<f8", "i8", "c8", "m8[s]", "?"]


@st.composite
def groups(draw: Any) -> tuple[np.ndarray, int]:
    """Rows of words, some columns of which hardly change, and how long a word is."""
    word = draw(st.sampled_from(WORD_SIZES))
    count, columns = draw(ROWS)
    values = hnp.arrays(f"u{word}", (count, columns), elements=st.integers(0, 256**word - 1))
    rows = draw(values)
    calm = draw(hnp.arrays(bool, columns))
    rows[:, calm] = rows[0, calm] + rows[:, calm] % 8
    return rows.view(np.uint8), word


@cache
def row_unpacker() -> Any:
    """What reads a row of a group by machine code, as other kernels do; None without numba."""
    if native("_stores.frames.kernels.groups") is None:
        return None
    import numba

    from compressed_array._stores.frames.kernels.bitpack import unpack_row

    @numba.njit("void(int64, int64, int64, int64)")
    def unpack_at(group: Any, row: Any, nbytes: Any, target: Any) -> None:
        unpack_row(group, row, nbytes, target)

    return unpack_at


@settings(max_examples=80)
@given(groups())
def test_rows_come_back_by_both(group: tuple[np.ndarray, int]) -> None:
    rows, word = group
    count, nbytes = rows.shape
    packed = bitpack.bitpack_rows(rows, word)
    assert bitpack.is_valid_group(packed, count, nbytes)
    np.testing.assert_array_equal(bitpack.unpack_rows(packed, 0, count, nbytes), rows)
    unpack_at = row_unpacker()
    if unpack_at is None:
        return
    padded = np.concatenate([rows.reshape(-1), np.zeros(8, np.uint8)])
    twice = Payloads.in_one_buffer(padded, [0, 0], [rows.size, rows.size])
    for native_group in map(bitpack.bitpack_groups(twice, nbytes, word).__getitem__, range(2)):
        np.testing.assert_array_equal(native_group, packed)
    there = np.concatenate([packed, np.full(16, 0xAA, np.uint8)])
    for row in range(count):
        out = np.full(nbytes + 8, 0x55, np.uint8)
        unpack_at(there.ctypes.data, row, nbytes, out.ctypes.data)
        np.testing.assert_array_equal(out[:nbytes], rows[row])
        assert (out[nbytes:] == 0x55).all(), "wrote behind the row"


def walk(steps: int, lanes: int = 3, width: int = 17, dtype: Any = np.float32) -> np.ndarray:
    """Numbers that change as a body's do."""
    rng = np.random.default_rng(0)
    return (np.sin(np.arange(steps)[:, None, None] / 9 + rng.random((lanes, width)) * 6) * 3).astype(dtype)


def tags(array: Any) -> set[int]:
    with array.store.epochs.writing:
        array.store._flush(thoroughly=True)
        table = array.store._frames.groups.table
        return set((table["where"][table["uses"] > 0] >> TAG_BITS).tolist())


@pytest.mark.parametrize("codec", ["delta", "auto"])
def test_observations_of_a_body_take_less_than_they_are(codec: str) -> None:
    stream = walk(3001)
    obs, after = pair((3000, 3, 17), codec, 1, np.float32)
    for t in range(3000):
        obs[t], after[t] = stream[t], stream[t + 1]
    assert BITPACKED in tags(obs)
    assert_same(obs, stream[:-1])
    assert_same(after, stream[1:])
    both = ca.read_pair(obs, after, (np.arange(2999, -1, -7), np.arange(0, 3000, 7) % 3))
    assert_same(both[0], stream[np.arange(2999, -1, -7), np.arange(0, 3000, 7) % 3])
    assert_same(both[1], stream[np.arange(3000, 0, -7), np.arange(0, 3000, 7) % 3])
    check_store(obs, after)
    assert int(obs.store._frames.groups.table["size"].sum()) < 0.9 * obs.nbytes  # and after's are the same


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("depth", [1, 4])
def test_a_ring_of_any_dtype_and_stacks(dtype: str, depth: int) -> None:
    rng = np.random.default_rng(1)
    width = 6
    word = np.dtype(dtype).itemsize
    frames = rng.integers(0, 256, (400, 2, width * word), np.uint8)
    frames[:, :, word - 1 :: word] &= 3
    if dtype == "?":
        frames &= 1
    stream = frames.view(dtype)
    stacks = np.concatenate([stream[k : 397 + k] for k in range(depth)], axis=2)
    plain = np.zeros((150, *stacks.shape[1:]), dtype)
    array = ca.zeros(plain.shape, dtype, item_ndim=1, codec="delta")
    for t, item in enumerate(stacks):
        array[t % 150] = plain[t % 150] = item
    assert BITPACKED in tags(array)
    assert array.read().tobytes() == plain.tobytes()
    check_store(array)


def test_rows_that_nothing_shrinks_stay_as_they_are() -> None:
    rows = np.random.default_rng(2).integers(0, 256, (1000, 60), np.uint8)
    array = ca.compress(rows, item_ndim=1, codec="delta")
    assert tags(array) == {PLAIN_ROWS}
    assert_same(array, rows)


def test_rows_that_nothing_shrinks_do_not_lie_in_many_small_segments() -> None:
    array = ca.zeros((4000, 8, 130), np.uint8, item_ndim=1, codec="delta")
    rows = np.random.default_rng(3).integers(0, 256, array.shape, np.uint8)
    for at, row in enumerate(rows):
        array[at] = row
    assert_same(array, rows)
    assert array.nbytes_stored < 1.15 * array.nbytes
    assert len(array.store._frames.heap._buffers) < 100


def test_an_interrupt_while_a_store_comes_to_rest_adds_nothing_to_groups_that_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = walk(60)
    array = ca.zeros((60, 3, 17), np.float32, item_ndim=1, codec="delta")
    for at in range(40):
        array[at] = stream[at]
    with monkeypatch.context() as patch:
        patch.setattr(Upkeep, "close_lanes", lambda upkeep: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            array.store.compact()
    for at in range(40, 60):
        array[at] = stream[at]
    assert_same(array, stream)
    check_store(array)


def test_a_rollout_at_rest_is_packed_whole() -> None:
    stream = walk(40)
    array = ca.compress(stream, item_ndim=1, codec="delta")
    array.store.compact()
    assert tags(array) == {BITPACKED}
    assert_same(array, stream)
    array[3] = stream[5]
    stream[3] = stream[5]
    assert_same(array, stream)


def test_pickles_and_files(tmp_path: Path) -> None:
    stream = walk(500)
    array = ca.compress(stream, item_ndim=1, codec="auto")
    assert BITPACKED in tags(array)
    ca.save(tmp_path / "rows.ca", array)
    for other in (pickle.loads(pickle.dumps(array)), ca.load(tmp_path / "rows.ca")):
        assert_same(other, stream)
        assert BITPACKED in tags(other)
        other[0] = stream[1]
        assert_same(other[0], stream[1])


@pytest.mark.parametrize("place", ["word", "division", "size", "bits", "wide", "long", "short", "count"])
def test_a_group_from_outside_that_does_not_fit_is_refused(place: str) -> None:
    array = ca.compress(walk(200, lanes=1), item_ndim=1, codec="delta")
    state = pickling.take(array)
    export = state.records
    numbers = np.asarray(state.cells)
    checks.check(export, (17,), 4, numbers)
    first = int(np.flatnonzero(export.tag == BITPACKED)[0])
    start = int(export.size[:first].sum())
    data = export.data.copy()
    if place == "word":
        data[start] = 3
    elif place == "size":
        data[start + 1] ^= 1
    elif place == "bits":
        data[start + 3 + 4] -= 8
    elif place == "wide":
        data[start + 3 + 4] = 200
    elif place == "long":
        data = np.insert(data, start + int(export.size[first]), 0)
        export.size[first] += 1
    elif place == "short":
        data = np.delete(data, start + int(export.size[first]) - 1)
        export.size[first] -= 1
    elif place == "count":
        export.count[first] -= 1
    else:
        data[start] = 8  # words of eight bytes do not divide a row of 68
    with pytest.raises(CorruptPayloadError):
        checks.check(replace(export, data=data), (17,), 4, numbers)
