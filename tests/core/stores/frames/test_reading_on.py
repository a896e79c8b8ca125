"""Items that follow each other are read on from where the last one ended, and are what a plain array holds."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array._heap import OFFSET_BITS, OFFSET_MASK
from compressed_array._runtime import threads
from compressed_array._stores.frames.groups import ADDRESS_MASK, BITPACKED, FIRST_PACKED, SLOTS, TAG_BITS
from compressed_array.codecs.delta import Delta
from compressed_array.errors import CorruptPayloadError
from core_helpers.arrays import assert_same
from core_helpers.codecs import CODECS
from core_helpers.streams import FRAME_CODECS, Screens, Stacked, pair

ROWS, LANES = 150, 2
NAMES = [*FRAME_CODECS, "delta/1", "delta/3", "delta/64", *(["delta-zstd/3"] if "delta-zstd" in CODECS else [])]
SHAPES = ["single", "stacked", "channel-last", "rows"]
Filled = tuple[Any, Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]


def steps_of(shape: str, kind: str, count: int) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    if shape == "rows":
        vectors = np.random.default_rng(0).integers(0, 90, (count + 1, LANES, 7)).astype(np.float32)
        return list(pairwise(vectors))
    depth, frame, axis = {"single": (1, (18, 18), 0), "stacked": (4, (1, 18, 18), 0)}.get(shape, (4, (18, 18, 1), 2))
    stream = Stacked(LANES, depth, frame, kind, axis=axis, episode=23)
    return [(step.obs, step.next_obs) for step in stream.steps(count)]


@cache
def filled(codec: str, shape: str, kind: str) -> Filled:
    """Observations and next observations of a ring that was written over, at rest at times, and here and there never.

    Its streams change their nature, and some cells hold what was written out of turn.
    """
    steps = steps_of(shape, kind, ROWS) + steps_of(shape, "calm", ROWS)
    items, rng = steps[0][0], np.random.default_rng(1)
    arrays = pair((ROWS, *items.shape), codec, items.ndim - 1, items.dtype)
    plains = np.zeros(arrays[0].shape, items.dtype), np.zeros(arrays[0].shape, items.dtype)
    for t, step in enumerate(steps[: ROWS - 9] + steps[ROWS : ROWS + 70]):
        at = t if t < ROWS - 9 else t - ROWS + 9
        for array, plain, value in zip(arrays, plains, step, strict=True):
            array[at] = plain[at] = value
        if t in (40, 41, ROWS + 20):
            arrays[0].store.compact()
    for at in rng.integers(0, ROWS - 9, 12):
        arrays[0][at, 1] = plains[0][at, 1] = steps[int(at) // 2][1][0]
    arrays[0][:3, 0] = plains[0][:3, 0] = 0
    return *arrays, *plains


# A start and how far each next item is: what follows, what is skipped, what comes again, what goes back, and mixtures.
strides = st.one_of(
    st.just([1] * 40),
    st.lists(st.integers(0, 2), max_size=40),
    st.lists(st.sampled_from([-1, -3, 1, 1]), max_size=40),
    st.lists(st.sampled_from([0, 1, 1, 1, 3, 4, 5, 17, -1, -60]), max_size=40),
)
runs = st.tuples(st.integers(0, ROWS - 1), st.integers(0, LANES - 1), strides)


def places(windows: list[tuple[int, int, list[int]]]) -> tuple[Any, Any]:
    rows = [np.cumsum([start, *steps]) % ROWS for start, _, steps in windows]
    lanes = [np.full(len(part), lane) for part, (_, lane, _) in zip(rows, windows, strict=True)]
    return np.concatenate(rows), np.concatenate(lanes)


@pytest.mark.parametrize("codec", NAMES)
@pytest.mark.parametrize("shape", SHAPES)
@given(windows=st.lists(runs, min_size=1, max_size=5), kind=st.sampled_from(["calm", "busy", "noise"]))
def test_windows_of_any_steps(codec: str, shape: str, windows: list[tuple[int, int, list[int]]], kind: str) -> None:
    obs, next_obs, plain, next_plain = filled(codec, shape, kind)
    key = places(windows)
    assert_same(obs.read(key), plain[key])
    assert_same(next_obs.read(key), next_plain[key])
    both = ca.read_pair(obs, next_obs, key)
    assert_same(both[0], plain[key])
    assert_same(both[1], next_plain[key])


@pytest.mark.parametrize("codec", NAMES)
@pytest.mark.parametrize("shape", SHAPES)
@given(
    starts=st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(0, LANES - 1)), min_size=1, max_size=6),
    length=st.integers(1, 40),
    behind=st.sampled_from([0, 0, 0, 1, 5, -70]),
    thread_count=st.sampled_from([1, 3]),
)
def test_what_comes_after_windows(
    codec: str, shape: str, starts: list[tuple[int, int]], length: int, behind: int, thread_count: int
) -> None:
    obs, next_obs, plain, next_plain = filled(codec, shape, "busy")
    rows, lanes = np.array(starts).T
    key = (rows[:, None] + np.arange(length)) % ROWS, np.repeat(lanes[:, None], length, 1)
    other_key = (key[0][:, -1] + behind) % ROWS, lanes
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPRESSED_ARRAY_THREADS", str(thread_count))
        patch.setattr(obs.store.engine, "_worth_a_thread", 1, raising=False)
        windows, after = ca.read_pair(obs, next_obs, key, None, other_key)
    assert_same(windows, plain[key])
    assert_same(after, next_plain[other_key])


@pytest.mark.parametrize("codec", NAMES)
@given(counts=st.tuples(st.integers(0, 12), st.integers(0, 12)), seed=st.integers(0, 9))
def test_any_two_keys(codec: str, counts: tuple[int, int], seed: int) -> None:
    obs, next_obs, plain, next_plain = filled(codec, "stacked", "calm")
    rng = np.random.default_rng(seed)
    key, other_key = ((rng.integers(0, ROWS, count), rng.integers(0, LANES, count)) for count in counts)
    first, second = ca.read_pair(obs, next_obs, key, None, other_key)
    assert_same(first, plain[key])
    assert_same(second, next_plain[other_key])
    out = np.empty_like(first), np.empty_like(second)
    ca.read_pair(obs, next_obs, key, out, other_key)
    assert_same(out[0], plain[key])
    assert_same(out[1], next_plain[other_key])


@pytest.mark.parametrize("codec", NAMES)
@pytest.mark.parametrize("depth", [2, 3, 5, 16])
@pytest.mark.parametrize("step", [1, 2, 3, 7, -1])
def test_every_step_from_group_to_group(codec: str, depth: int, step: int) -> None:
    """Stacks that are deeper than groups are long reach across several steps' groups, and are read from all of them."""
    stream, level = Stacked(1, depth, (1, 18, 18), episode=40), int(codec.partition("/")[2] or 8)
    given_codec = Delta(max(level, depth), 0, 1) if codec.startswith("delta") and "zstd" not in codec else codec
    plain = np.concatenate([moment.obs for moment in stream.steps(140)])
    array = ca.zeros(plain.shape, np.uint8, codec=given_codec)
    for t, item in enumerate(plain):
        array[t] = item
    for first in range(9):
        assert_same(array.read(slice(first, None, step)), plain[first::step])


@pytest.mark.skipif(not ca.has_numba(), reason="there are no kernels here")
@pytest.mark.parametrize("codec", NAMES)
def test_threads_that_take_windows_apart(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPRESSED_ARRAY_THREADS", "3")
    monkeypatch.setattr(threads, "_pool", threads.Pool())
    for shape in SHAPES:
        obs, _, plain, _ = filled(codec, shape, "calm")
        monkeypatch.setattr(obs.store.engine, "_worth_a_thread", 1)
        for count in (3, 40, 333):
            key = np.arange(count) % ROWS, np.full(count, 1)
            assert_same(obs.read(key), plain[key])


@pytest.mark.skipif(not ca.has_numba(), reason="there are no kernels here")
@pytest.mark.parametrize("depth", [1, 4])
def test_nothing_goes_on_from_an_item_that_failed(depth: int) -> None:
    """What is left of a group that does not unpack is no place to read on from; those behind it are read as ever."""
    pytest.importorskip("zstandard")
    screens = Screens(1, (36, 32), "busy")
    frames = np.stack([screens.next() for _ in range(200 + depth - 1)])
    plain = np.stack([frames[t : t + depth] for t in range(200)])
    array = ca.zeros(plain.shape, np.uint8, codec="delta-zstd/4")
    for t, item in enumerate(plain):
        array[t] = item
    table, heap = array.store._frames.groups.table, array.store._frames.heap
    tags = table["where"] >> TAG_BITS
    broken = int(np.flatnonzero((tags >= FIRST_PACKED) & (tags < BITPACKED))[9])
    where = int(table["where"][broken]) & ADDRESS_MASK
    segment, at = heap.segment(where >> OFFSET_BITS), where & OFFSET_MASK
    segment[at] ^= 0xFF
    for _ in range(5):
        with pytest.raises(CorruptPayloadError, match="do not decode"):
            array.read()
    ends = np.flatnonzero((array.cells.numbers.reshape(-1).astype(np.int64) - 1) // SLOTS == broken)
    after = int(ends.max()) + depth
    assert_same(array.read(slice(after, None)), plain[after:])
    segment[at] ^= 0xFF
    assert_same(array, plain)
