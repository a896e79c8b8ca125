"""Arrays on one store of single items: what is equal to the row before is kept once, and nothing else is affected."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import compressed_array as ca
from compressed_array import _heap
from compressed_array._stores import cells as cell_store
from compressed_array._stores import last_row
from compressed_array._stores.last_row import ENOUGH_LOOKED_FOR, LastRow
from compressed_array.usage import usage_of
from core_helpers.arrays import assert_same
from core_helpers.codecs import CODECS
from core_helpers.interruptions import Interruption

pytestmark = pytest.mark.same_everywhere

SINGLE = [name for name in ("none", "gzip", "rle", "zstd-3", "lz4-block/0") if name in CODECS]
STEPS, LANES, NBYTES = 60, 3, 2000


def a_pair(codec: str, steps: int = STEPS, nbytes: int = NBYTES) -> tuple[Any, Any]:
    obs = ca.zeros((steps, LANES, nbytes), np.uint8, item_ndim=1, codec=codec)
    return obs, ca.zeros(obs.shape, np.uint8, item_ndim=1, store=obs.store)


def a_stream(steps: int, nbytes: int = NBYTES) -> Any:
    """One step more than that, of noise in a part of each item."""
    items = np.zeros((steps + 1, LANES, nbytes), np.uint8)
    noise = np.random.default_rng(0).integers(1, 256, (steps + 1, LANES, nbytes // 4))
    items[..., : nbytes // 4] = noise
    return items


def fill(obs: Any, after: Any, items: Any) -> None:
    for t in range(len(items) - 1):
        ca.write_pair(obs, after, t % len(obs), items[t], items[t + 1])


@pytest.mark.parametrize("codec", SINGLE)
def test_a_next_observation_is_kept_once(codec: str) -> None:
    items = a_stream(STEPS)
    alone = ca.compress(items, item_ndim=1, codec=codec)
    obs, after = a_pair(codec)
    fill(obs, after, items)
    assert_same(obs, items[:-1])
    assert_same(after, items[1:])
    usage = usage_of([obs, after], STEPS * LANES, NBYTES)
    assert usage.shared == (STEPS - 1) * LANES
    obs.compact()
    # The tables, with a count of references, are 16 bytes an item; half as much again as there is room for.
    assert obs.store.nbytes <= alone.store.nbytes + 24 * items[..., 0].size + 8192


@pytest.mark.parametrize("codec", SINGLE)
def test_a_ring_that_goes_round_keeps_no_more(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALLEST_SEGMENT", "LARGEST_SEGMENT"):
        monkeypatch.setattr(_heap, name, 16384)
    items = a_stream(7 * STEPS)
    obs, after = a_pair(codec)
    fill(obs, after, items[: STEPS + 1])
    once = obs.store.nbytes
    fill(obs, after, items[STEPS:])
    assert_same(obs, items[-STEPS - 1 : -1])
    assert_same(after, items[-STEPS:])
    assert usage_of([obs, after], STEPS * LANES, NBYTES).shared == (STEPS - 1) * LANES
    assert obs.store.nbytes < 1.3 * once
    obs[...] = after[...] = 0
    obs.compact()
    assert obs.store.nbytes < 16384 + 24 * 2 * STEPS * LANES  # a segment, and tables that do not shrink


@pytest.mark.parametrize("is_compressed", [False, True])
def test_rows_that_are_written_together_share_as_well(is_compressed: bool) -> None:
    items = a_stream(STEPS)
    values: list[Any] = [items[:-1], items[1:]]
    if is_compressed:
        values = [ca.compress(value, item_ndim=1, codec="gzip") for value in values]
    obs, after = a_pair("gzip")
    ca.write_pair(obs, after, slice(10, 30), values[0][10:30], values[1][10:30])
    assert_same(obs[10:30], items[10:30])
    assert_same(after[10:30], items[11:31])
    assert not obs[30:].read().any()
    assert usage_of([obs, after], 20 * LANES, NBYTES).shared == 19 * LANES
    ca.write_pair(obs, after, slice(11, 30), obs[10:29], after[10:29])  # onto itself
    assert_same(obs[11:30], items[10:29])
    assert_same(after[11:30], items[11:30])
    ca.write_pair(obs, after, slice(0, 5), 7, items[1])
    assert (obs[:5].read() == 7).all()
    assert_same(after[:5], np.broadcast_to(items[1], (5, LANES, NBYTES)))


def test_an_array_that_is_made_amid_a_write_disturbs_nothing() -> None:
    """What is forgotten in a write is forgotten by what looks for it, whoever makes one more array meanwhile."""
    x, y = a_stream(1)
    interrupted = 0
    for nth in range(1, 400):
        a, b = a_pair("gzip", steps=2)
        a[0] = x
        kept = a.copy()
        a[0] = 0
        del kept  # which leaves it to the next write to free the items
        with Interruption(nth, partial(ca.zeros, b.shape, np.uint8, item_ndim=1, store=a.store)) as point:
            b[0] = x
        interrupted += point.left < 0
        a[1] = y
        assert_same(b.read(0), x)
        assert_same(a.read(1), y)
        if point.left > 0:
            break
    assert interrupted > 30


@pytest.mark.parametrize("steps", [0, 1])
def test_a_pair_with_nothing_in_common_yet_comes_back_on_one_store(steps: int) -> None:
    items = a_stream(STEPS)
    obs, after = a_pair("gzip")
    fill(obs, after, items[: steps + 1])
    new, new_after = pickle.loads(pickle.dumps((obs, after)))
    assert new.store is new_after.store
    fill(new, new_after, items)
    assert usage_of([new, new_after], STEPS * LANES, NBYTES).shared == (STEPS - 1) * LANES


def test_items_without_bytes_are_pickled() -> None:
    empty = ca.zeros((3, 2), "V0", item_ndim=1, codec="gzip")
    kept, other = empty.copy(), ca.zeros((3, 2), "V0", item_ndim=1, store=empty.store)
    assert pickle.loads(pickle.dumps((empty, kept, other)))[2].shape == (3, 2)


def test_what_was_never_shared_is_pickled_alone() -> None:
    """A copy makes no pair: what an array has not in common with it stays behind."""
    items = np.random.default_rng(0).integers(1, 256, (40, 500), np.uint8)
    array = ca.compress(items, item_ndim=1, codec="gzip")
    alone = len(pickle.dumps(array))
    other = array.copy()
    other[...] = items[::-1] ^ 255
    assert len(pickle.dumps(array)) == alone


def test_zeros_and_single_items_say_nothing_about_a_stream() -> None:
    obs, after = a_pair("gzip", ENOUGH_LOOKED_FOR)
    for t in range(ENOUGH_LOOKED_FOR):
        ca.write_pair(obs, after, t, *np.zeros((2, LANES, NBYTES), np.uint8))
    for t in range(ENOUGH_LOOKED_FOR):
        obs[t % 7, t % LANES] = t % 251 + 1
    fill(obs, after, a_stream(STEPS))
    assert usage_of([obs[:STEPS], after[:STEPS]], STEPS * LANES, NBYTES).shared == (STEPS - 1) * LANES


def test_what_is_remembered_is_what_was_stored() -> None:
    """The caller's memory is the caller's: it may change after the write."""
    obs, after = a_pair("gzip")
    items = a_stream(1)
    row = items[0].copy()
    obs[0] = row
    row[...] = items[1]
    after[0] = row
    obs[1] = items[0]
    assert_same(obs.read(0), items[0])
    assert_same(after.read(0), items[1])
    assert_same(obs.read(1), items[0])


def test_the_last_bytes_count(rng: np.random.Generator) -> None:
    """Items that are the same in all bytes that are looked at first."""
    obs, after = a_pair("gzip")
    item = rng.integers(0, 256, (LANES, NBYTES), np.uint8)
    other = item.copy()
    other[:, -1] += 1
    obs[0], after[0] = item, other
    assert_same(obs.read(0), item)
    assert_same(after.read(0), other)


def test_an_array_alone_remembers_nothing() -> None:
    array = ca.zeros((STEPS, LANES, NBYTES), np.uint8, item_ndim=1, codec="none")
    array[:1] = np.random.default_rng(0).integers(1, 256, (1, LANES, NBYTES))
    assert array.store._last_row is None


def test_a_stream_without_anything_in_common_is_no_longer_compared(rng: np.random.Generator) -> None:
    obs, after = a_pair("none", ENOUGH_LOOKED_FOR)
    for t in range(ENOUGH_LOOKED_FOR // LANES + 2):
        obs[t] = rng.integers(1, 256, (LANES, NBYTES), np.uint8)
    assert obs.store._last_row is None
    assert not after.read(0).any()
    again = ca.zeros(obs.shape, np.uint8, item_ndim=1, store=obs.store)  # another array is another chance
    fill(obs, again, a_stream(4))
    assert usage_of([obs, again], 4, NBYTES).shared == 3 * LANES


def test_lanes_that_are_others_are_not_the_same_row() -> None:
    row = LastRow()
    items, numbers = a_stream(1)[0], np.arange(1, LANES + 1, dtype=np.uint32)
    row.keep(items, np.arange(LANES), numbers)
    assert row.find(items, np.arange(LANES)).tolist() == numbers.tolist()
    assert row.find(items, np.arange(LANES) + 1).tolist() == [0] * LANES
    assert row.find(items[:2], np.arange(2)).tolist() == [0, 0]
    row.forget(numbers[1:2])
    assert row.find(items, np.arange(LANES)).tolist() == [1, 0, 3]
    row.clear()
    assert row.find(items, np.arange(LANES)).tolist() == [0] * LANES


def test_many_items_of_one_stream_are_no_row(rng: np.random.Generator) -> None:
    """A write of many rows at once is neither copied nor remembered."""
    obs = ca.zeros((STEPS, NBYTES), np.uint8, item_ndim=1, codec="gzip")
    after = ca.zeros(obs.shape, np.uint8, item_ndim=1, store=obs.store)
    items = rng.integers(0, 256, obs.shape, np.uint8)
    obs[...], after[...] = items, items
    assert obs.store._last_row.nbytes == 0
    assert_same(after, items)


@pytest.mark.parametrize("protocol", [4, 5])
def test_pickled_together_they_share_again(protocol: int) -> None:
    obs, after = a_pair("gzip")
    items = a_stream(STEPS)
    fill(obs, after, items)
    together = pickle.dumps((obs, after), protocol)
    assert len(together) < 1.2 * len(pickle.dumps(ca.compress(items, item_ndim=1, codec="gzip"), protocol))
    new, new_after = pickle.loads(together)
    assert new.store is new_after.store
    assert_same(new, items[:-1])
    assert_same(new_after, items[1:])
    assert usage_of([new, new_after], STEPS * LANES, NBYTES).shared == (STEPS - 1) * LANES
    # As it goes on, it finds what is the same, and frees what nobody needs.
    more = a_stream(4 * STEPS)
    fill(new, new_after, more)
    assert_same(new_after, more[-STEPS:])
    assert usage_of([new, new_after], STEPS * LANES, NBYTES).shared == (STEPS - 1) * LANES
    new[...] = new_after[...] = 0
    new.compact()
    assert len(new.store._free) == new.store._made - 1  # of which none was held by what unpickled it
    assert_same(obs, items[:-1])


def test_what_is_pickled_alone_takes_its_own_along() -> None:
    obs, after = a_pair("gzip")
    items = a_stream(STEPS)
    fill(obs, after, items)
    assert_same(pickle.loads(pickle.dumps(obs)), items[:-1])
    part = pickle.dumps(obs[3:6])
    assert len(part) < len(pickle.dumps(obs)) / 8
    assert_same(pickle.loads(part), items[3:6])
    few = obs[3:6].copy()
    assert len(pickle.dumps(few)) < len(pickle.dumps(obs)) / 8
    before = pickle.loads(pickle.dumps(few))
    obs[4] = 0
    assert_same(before, items[3:6])
    assert_same(pickle.loads(pickle.dumps((obs, after)))[0], obs.read())


def test_an_array_of_one_item_comes_back() -> None:
    one = ca.zeros((NBYTES,), np.uint8, item_ndim=1, codec="gzip")
    other = ca.zeros(one.shape, np.uint8, item_ndim=1, store=one.store)
    one[...] = other[...] = np.arange(NBYTES) % 251
    new, new_other = pickle.loads(pickle.dumps((one, other)))
    assert new.store is new_other.store
    assert_same(new, np.asarray(np.arange(NBYTES) % 251, np.uint8))
    assert len(np.unique([new.cells.numbers, new_other.cells.numbers])) == 1


def test_a_snapshot_is_taken_anew_after_a_write() -> None:
    obs, after = a_pair("gzip")
    items = a_stream(STEPS)
    fill(obs, after, items)
    numbers = obs.cells.numbers.reshape(-1)
    first = obs.store.snapshot(numbers, is_part=False)
    assert obs.store.snapshot(numbers, is_part=False) is first
    obs[0] = 9
    assert obs.store.snapshot(numbers, is_part=False) is not first
    first = obs.store.snapshot(numbers, is_part=False)
    obs[0] = 0  # which is no record
    assert obs.store.snapshot(numbers, is_part=False) is not first


def test_a_failed_write_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    obs, after = a_pair("gzip")
    items = a_stream(STEPS)
    fill(obs, after, items)

    def fail(*_: Any) -> Any:
        raise MemoryError

    row = np.concatenate([items[-1][:1], 7 + np.zeros((LANES - 1, NBYTES), np.uint8)])  # one that is there, and others
    references = obs.store._references.copy()
    with monkeypatch.context() as patch:
        patch.setattr(cell_store, "encode_records", fail)
        with pytest.raises(MemoryError):
            obs[0] = row
    assert np.array_equal(obs.store._references[: len(references)], references)
    obs[0] = row
    assert_same(obs.read(0), row)
    assert_same(after, items[1:])


@pytest.mark.parametrize("codec", [name for name in ("gzip", "none") if name in CODECS])
@pytest.mark.long
def test_an_interrupt_at_any_point_leaves_both_right(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    for name in ("SMALLEST_SEGMENT", "LARGEST_SEGMENT"):
        monkeypatch.setattr(_heap, name, 8192)
    obs, after = a_pair(codec, steps=5)
    plain, plain_after = np.zeros(obs.shape, np.uint8), np.zeros(obs.shape, np.uint8)
    items = a_stream(500)
    interrupted = 0
    for step in range(499):
        row, before, last = step % 5, items[step], items[step + 1]
        try:
            with Interruption(step + 1, interrupt, sources=(cell_store.__file__, last_row.__file__)):
                ca.write_pair(obs, after, row, before, last)
        except KeyboardInterrupt:
            interrupted += 1
            for array, plains, new in ((obs, plain, before), (after, plain_after, last)):
                for lane, got in enumerate(array.read(row)):
                    assert np.array_equal(got, new[lane]) or np.array_equal(got, plains[row, lane])
                plains[row] = array.read(row)
            ca.write_pair(obs, after, row, before, last)
        plain[row], plain_after[row] = before, last
        assert_same(obs, plain)
        assert_same(after, plain_after)
    assert interrupted > 100
    assert usage_of([obs, after], 5, NBYTES).shared >= 3 * LANES


class Pair(RuleBasedStateMachine):
    """Two arrays on one store and two plain ones, filled from a few items, so that most are equal to some other."""

    codec: str

    @initialize(lanes=st.integers(1, 3), nbytes=st.sampled_from([1, 70, 600]))
    def begin(self, lanes: int, nbytes: int) -> None:
        shape = (4, lanes, nbytes)
        first = ca.zeros(shape, np.uint8, item_ndim=1, codec=self.codec)
        self.arrays = [first, ca.zeros(shape, np.uint8, item_ndim=1, store=first.store)]
        self.plains = [np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)]
        rng = np.random.default_rng(0)
        self.items = np.concatenate([np.zeros((1, nbytes), np.uint8), rng.integers(0, 256, (3, nbytes), np.uint8)])

    @rule(which=st.integers(0, 1), row=st.integers(0, 3), data=st.data())
    def write_a_row(self, which: int, row: int, data: st.DataObject) -> None:
        lanes = self.plains[0].shape[1]
        chosen = data.draw(st.lists(st.integers(0, 3), min_size=lanes, max_size=lanes))
        self.arrays[which][row] = self.plains[which][row] = self.items[chosen]

    @rule(row=st.integers(0, 3), first=st.integers(0, 3), second=st.integers(0, 3))
    def write_a_pair(self, row: int, first: int, second: int) -> None:
        items = [np.broadcast_to(self.items[i], self.plains[0].shape[1:]).copy() for i in (first, second)]
        ca.write_pair(*self.arrays, row, *items)
        for plain, item in zip(self.plains, items, strict=True):
            plain[row] = item

    @rule(which=st.integers(0, 1), row=st.integers(0, 3), lane=st.integers(0, 2), item=st.integers(0, 3))
    def write_one(self, which: int, row: int, lane: int, item: int) -> None:
        lane %= self.plains[0].shape[1]
        self.arrays[which][row, lane] = self.plains[which][row, lane] = self.items[item]

    @rule(which=st.integers(0, 1), item=st.integers(0, 3))
    def write_all(self, which: int, item: int) -> None:
        self.arrays[which][...] = self.plains[which][...] = self.items[item]

    @rule(which=st.integers(0, 1))
    def copy_and_drop(self, which: int) -> None:
        self.arrays[which] = self.arrays[which].copy()

    @rule()
    def compact(self) -> None:
        self.arrays[0].compact()

    @rule(how=st.sampled_from([pickle.dumps, copy.deepcopy]))
    def go_and_come_back(self, how: Any) -> None:
        made = how(self.arrays)
        self.arrays = pickle.loads(made) if isinstance(made, bytes) else made

    @invariant()
    def all_are_the_same(self) -> None:
        for array, plain in zip(getattr(self, "arrays", []), getattr(self, "plains", []), strict=True):
            assert_same(array, plain)

    @invariant()
    def references_are_counted(self) -> None:
        for store in {id(array.store): array.store for array in getattr(self, "arrays", [])}.values():
            with store.epochs.writing:
                store._flush()
                if store._references is not None:
                    held = [a.cells.numbers.reshape(-1) for a in self.arrays if a.store is store]
                    counts = np.bincount(np.concatenate(held), minlength=len(store._where))
                    assert np.array_equal(counts[1 : store._made] > 0, store._where[1 : store._made] != 0)
                    alive = np.flatnonzero(counts[1:]) + 1
                    assert np.array_equal(counts[alive], store._references[alive])


@pytest.mark.long
@pytest.mark.parametrize("codec", SINGLE)
def test_any_sequence_of_writes_leaves_both_the_same(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALLEST_SEGMENT", "LARGEST_SEGMENT"):
        monkeypatch.setattr(_heap, name, 4096)
    machine = type("Machine", (Pair,), {"codec": codec})
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=40))
