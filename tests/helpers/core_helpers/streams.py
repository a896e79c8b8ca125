"""Streams of frames as environments make them, for the tests of the frame store, and what must hold inside a store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

import compressed_array as ca
from compressed_array._heap import OFFSET_BITS
from compressed_array._stores.frames.groups import ADDRESS_MASK, FREE, RECORDS
from compressed_array._stores.frames.records import split_records
from core_helpers.codecs import CODECS

Frame = np.ndarray[Any, Any]
FRAME_CODECS = [name for name in ("delta", "delta-zstd", "auto") if name == "auto" or name in CODECS]


class Step(NamedTuple):
    """What a buffer is given at one step, an item for each lane."""

    obs: Frame
    next_obs: Frame
    done: np.ndarray[Any, np.dtype[np.bool_]]


class Screens:
    """Frames of one environment, one by one: calm, busy (zstd makes them small, changes do not) or noise."""

    def __init__(self, seed: int, shape: tuple[int, ...], kind: str = "calm") -> None:
        self._rng, self._shape, self.kind = np.random.default_rng(seed), shape, kind
        self._frame = self._rng.integers(0, 40, shape).astype(np.uint8)

    def next(self) -> Frame:
        rng, size = self._rng, int(np.prod(self._shape))
        if self.kind == "noise":
            self._frame = rng.integers(0, 256, self._shape).astype(np.uint8)
        elif self.kind == "busy":
            tile = rng.integers(0, 256, 16).astype(np.uint8)
            self._frame = np.resize(tile, size).reshape(self._shape)
        else:
            self._frame = self._frame.copy()
            flat = self._frame.reshape(-1)
            at = int(rng.integers(0, size))
            flat[at : at + int(rng.integers(1, 24))] = rng.integers(0, 256)
            flat[rng.integers(0, size, 2)] = rng.integers(0, 256, 2)
        return self._frame


class Stacked:
    """Environments side by side whose frames are stacked, with resets, blank frames and true terminal observations."""

    def __init__(
        self,
        lanes: int = 2,
        depth: int = 4,
        shape: tuple[int, ...] = (20, 20),
        kind: str = "calm",
        *,
        axis: int = 0,
        episode: int = 11,
        seed: int = 0,
    ) -> None:
        self._screens = [Screens(seed * 100 + lane, shape, kind) for lane in range(lanes)]
        self._depth, self._axis, self._episode = depth, axis, episode
        self._ages = [lane % max(episode, 1) for lane in range(lanes)]
        self._stacks = [self._reset(lane) for lane in range(lanes)]

    def set_kind(self, kind: str) -> None:
        for screens in self._screens:
            screens.kind = kind

    def _reset(self, lane: int) -> list[Frame]:
        first = self._screens[lane].next()
        return [np.zeros_like(first)] * (self._depth - 1) + [first]

    def items(self) -> Frame:
        joined = [np.concatenate(stack, axis=self._axis) if self._depth > 1 else stack[0] for stack in self._stacks]
        return np.stack(joined)

    def step(self) -> Step:
        obs = self.items()
        for lane, stack in enumerate(self._stacks):
            self._stacks[lane] = [*stack[1:], self._screens[lane].next()]
            self._ages[lane] += 1
        next_obs, done = self.items(), np.zeros(len(self._stacks), bool)
        for lane in range(len(self._stacks)):
            if self._ages[lane] >= self._episode:
                self._ages[lane], done[lane] = 0, True
                self._stacks[lane] = self._reset(lane)
        return Step(obs, next_obs, done)

    def steps(self, count: int) -> Iterator[Step]:
        return (self.step() for _ in range(count))


def pair(shape: tuple[int, ...], codec: Any, item_ndim: int, dtype: Any = np.uint8) -> tuple[Any, Any]:
    """Observations and next observations on one store."""
    obs = ca.CompressedArray(shape, dtype, item_ndim=item_ndim, codec=codec)
    return obs, ca.CompressedArray(shape, dtype, item_ndim=item_ndim, store=obs.store)


def frames_stored(store: Any) -> int:
    """How many frames all groups hold together."""
    with store.epochs.writing:
        store._flush(thoroughly=True)
        return int(store._frames.groups.table["count"].sum(dtype=np.int64))


def groups_in_use(store: Any) -> int:
    with store.epochs.writing:
        store._flush(thoroughly=True)
        return int(np.count_nonzero(store._frames.groups.table["where"]))


def check_store(*arrays: Any) -> None:
    """Whether a store's books are right, if these arrays and their views are all that stand on it."""
    store = arrays[0].store
    assert all(array.store is store for array in arrays)
    with store.epochs.writing:
        store._flush(thoroughly=True)
        frames = store._frames
        groups, table = frames.groups, frames.groups.table
        numbers = [table_.numbers for table_ in {id(a._table): a._table for a in arrays}.values()]
        held = frames.lanes.table["group"][frames.lanes.table["group"] > 0] - 1
        before = table["before"][held].astype(np.int64)
        by_lanes = np.concatenate([held, before[before > 0] - 1])
        needed = np.concatenate([frames.needed(np.concatenate(numbers)), by_lanes])
        np.testing.assert_array_equal(table["uses"], np.bincount(needed, minlength=len(table)))
        used = np.flatnonzero(table["where"])
        assert (table["uses"][used] > 0).all(), "a group that nobody needs"
        free = groups.free[: groups.counts[FREE]]
        assert sorted([*free.tolist(), *used.tolist()]) == list(range(len(table))), "a group is lost, or there twice"
        segments = (table["where"][used] & ADDRESS_MASK) >> OFFSET_BITS
        live = np.zeros(len(frames.heap.live), np.int64)
        np.add.at(live, segments, table["size"][used].astype(np.int64))
        np.testing.assert_array_equal(frames.heap.live, live)


def assert_same_inside(one: Any, other: Any) -> None:
    """Two states of arrays have the same numbers, and their stores the same bytes."""
    np.testing.assert_array_equal(one.cells, other.cells)
    for field in fields(one.records):
        a, b = (getattr(state.records, field.name) for state in (one, other))
        if isinstance(a, np.ndarray):
            assert a.tobytes() == b.tobytes(), field.name
        elif field.name == "references":
            assert [r.tobytes() for r in a] == [r.tobytes() for r in b]
        else:
            assert a == b, field.name


def record_kinds(export: Any) -> list[int]:
    """The kinds of all records in the groups of an export that are not packed or plain."""
    ends = np.cumsum(export.size.astype(np.int64))
    kinds: list[int] = []
    for tag, size, count, end in zip(export.tag, export.size, export.count, ends, strict=True):
        if tag == RECORDS:
            kinds += [kind for kind, _ in split_records(export.data[int(end) - int(size) : int(end)], int(count))]
    return kinds
