"""Two arrays on one store of frames, and two plain ones: any sequence of what buffers do leaves them the same."""

from __future__ import annotations

import copy
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import compressed_array as ca
from compressed_array import _heap
from compressed_array._stores.frames.store import FrameStore
from core_helpers.arrays import assert_same, keys
from core_helpers.codecs import CODECS
from core_helpers.streams import Stacked, check_store

pytestmark = pytest.mark.long

STEPS = 40  # rows of the ring: enough for "auto" to take it for a stream
# Depth, shape of a frame, axis of the stack: of frames that are coded and of frames that are kept as rows.
SHAPES = [
    (1, (20, 20), 0),
    (4, (1, 17, 17), 0),
    (4, (17, 17, 1), 2),
    (3, (2, 9, 16), 0),
    (4, (1, 6, 6), 0),
    (1, (17,), 0),
]


def pick(data: st.DataObject, among: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """One of some arrays, in a way that leaves hypothesis no reference to it."""
    return among[data.draw(st.integers(0, len(among) - 1))]


class TwoOnOne(RuleBasedStateMachine):
    """`arrays` and `plains` are observations and next observations, written to in step."""

    codec: Any

    @initialize(how=st.sampled_from(SHAPES), lanes=st.integers(1, 3), seed=st.integers(0, 99), kind=st.integers(0, 5))
    def begin(self, how: tuple[int, tuple[int, ...], int], lanes: int, seed: int, kind: int) -> None:
        depth, shape, axis = how
        name = ["calm", "calm", "calm", "calm", "busy", "noise"][kind]
        self.stream = Stacked(lanes, depth, shape, name, axis=axis, episode=5 + seed % 9, seed=seed)
        items = self.stream.items()
        full, ndim = (STEPS, *items.shape), items.ndim - 1
        obs = ca.CompressedArray(full, np.uint8, item_ndim=ndim, codec=self.codec)
        self.arrays = [obs, ca.CompressedArray(full, np.uint8, item_ndim=ndim, store=obs.store)]
        assert isinstance(obs.store, FrameStore)
        self.plains = [np.zeros(full, np.uint8) for _ in range(2)]
        self.views: list[tuple[Any, Any]] = []
        self.kept: list[Any] = []
        self.at = 0

    def both(self) -> list[tuple[Any, Any]]:
        return list(zip(self.arrays, self.plains, strict=True))

    def values(self, data: st.DataObject, shape: tuple[int, ...]) -> Any:
        rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
        return rng.integers(0, 1 + data.draw(st.sampled_from([0, 3, 255])), shape).astype(np.uint8)

    @rule(steps=st.integers(1, 60))
    def add(self, steps: int) -> None:
        for step in self.stream.steps(steps):
            for (array, plain), items in zip(self.both(), step[:2], strict=True):
                array[self.at] = items
                plain[self.at] = items
            self.at = (self.at + 1) % STEPS

    @rule(steps=st.integers(1, 20), which=st.integers(0, 1))
    def add_to_one_only(self, steps: int, which: int) -> None:
        for step in self.stream.steps(steps):
            self.arrays[which][self.at] = step.obs
            self.plains[which][self.at] = step.obs
            self.at = (self.at + 1) % STEPS

    @rule(length=st.integers(2, 30), low=st.integers(0, STEPS - 2))
    def add_many_at_once(self, length: int, low: int) -> None:
        length = min(length, STEPS - low)
        steps = list(self.stream.steps(length))
        for which, (array, plain) in enumerate(self.both()):
            items = np.stack([step[which] for step in steps])
            array[low : low + length] = items
            plain[low : low + length] = items

    @rule(data=st.data())
    def write_lanes_out_of_order(self, data: st.DataObject) -> None:
        items = np.stack([step.obs for step in self.stream.steps(4)])
        lanes = items.shape[1]
        which = data.draw(st.integers(0, 1))
        for lane in data.draw(st.permutations(range(lanes))):
            for t in data.draw(st.permutations(range(4))):
                self.arrays[which][t, lane] = items[t, lane]
                self.plains[which][t, lane] = items[t, lane]

    @rule(data=st.data(), count=st.integers(1, 12))
    def overwrite_at_random(self, data: st.DataObject, count: int) -> None:
        array, plain = pick(data, self.both())
        rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
        rows, lanes = rng.integers(0, STEPS, count), rng.integers(0, plain.shape[1], count)  # some of them twice
        items = self.values(data, (count, *plain.shape[2:]))
        array[rows, lanes] = items
        plain[rows, lanes] = items

    @rule(data=st.data())
    def write_by_any_key(self, data: st.DataObject) -> None:
        array, plain = pick(data, [*self.both(), *self.views])
        key = data.draw(keys(plain.shape))
        value = self.values(data, np.shape(plain[key]))
        plain[key] = value
        array[key] = value

    @rule(data=st.data())
    def blank(self, data: st.DataObject) -> None:
        array, plain = pick(data, [*self.both(), *self.views])
        array[...] = np.uint8(0)
        plain[...] = 0

    @rule()
    def copy_obs_to_next_obs(self) -> None:
        self.arrays[1][:-1] = self.arrays[0][1:]
        self.plains[1][:-1] = self.plains[0][1:].copy()

    @rule(data=st.data())
    def take_a_view(self, data: st.DataObject) -> None:
        array, plain = pick(data, self.both())
        key = tuple(data.draw(st.slices(side)) for side in array.grid_shape)
        view, plain_view = array[key], plain[key]
        if data.draw(st.booleans()):
            order = [1, 0, *range(2, plain.ndim)]
            view, plain_view = view.transpose(order), plain_view.transpose(order)
        self.views = [*self.views[-2:], (view, plain_view)]

    @rule(data=st.data())
    def keep_a_copy(self, data: st.DataObject) -> None:
        array, plain = pick(data, self.both())
        self.kept = [*self.kept[-1:], (array.copy(), plain.copy())]

    @rule()
    def compact(self) -> None:
        self.arrays[0].store.compact()

    @rule()
    def drop_copies(self) -> None:
        self.kept = []

    @rule(how=st.sampled_from(["pickle", "deepcopy", "protocol 4"]))
    def replace_both(self, how: str) -> None:
        """Together they go and together they come back: on one store again."""
        before = self.plains
        if how == "deepcopy":
            arrays = copy.deepcopy(self.arrays)
        else:
            arrays = pickle.loads(pickle.dumps(self.arrays, 4 if how == "protocol 4" else 5))
        self.arrays[0][...] = 7  # what happens to the old ones is nothing to the new
        assert arrays[0].store is arrays[1].store
        assert (arrays[0].store is self.arrays[0].store) == (how == "deepcopy")  # a copy shares what it can
        self.arrays, self.plains, self.views, self.kept = arrays, before, [], []

    @rule(which=st.integers(0, 1), how=st.sampled_from(["pickle", "save"]))
    def replace_one(self, which: int, how: str) -> None:
        """One alone comes back on a store of its own; the other gets onto that by being written to a new array."""
        alone = pickle.loads(pickle.dumps(self.arrays[which])) if how == "pickle" else saved(self.arrays[which])
        assert alone.store is not self.arrays[which].store
        assert_same(alone, self.plains[which])
        other = ca.CompressedArray(alone.shape, np.uint8, item_ndim=len(alone.item_shape), store=alone.store)
        other[...] = self.arrays[1 - which]
        self.arrays = [alone, other] if which == 0 else [other, alone]
        self.views, self.kept = [], []

    @rule(data=st.data())
    def pickle_and_save_a_view(self, data: st.DataObject) -> None:
        array, plain = pick(data, [*self.both(), *self.views])
        assert_same(pickle.loads(pickle.dumps(array)), plain)
        assert_same(saved(array), plain)

    @rule(data=st.data())
    def read_both(self, data: st.DataObject) -> None:
        key = data.draw(keys(self.plains[0].shape))
        for got, plain in zip(ca.read_pair(*self.arrays, key), self.plains, strict=True):
            assert_same(got, plain[key])

    @precondition(lambda self: self.views)
    @rule(data=st.data())
    def read_a_view_and_an_array_as_a_pair(self, data: st.DataObject) -> None:
        (view, plain_view), (array, plain) = pick(data, self.views), self.both()[0]
        rows = data.draw(st.lists(st.integers(0, max(min(len(plain_view), STEPS) - 1, 0)), max_size=5))
        if len(plain_view):
            got = ca.read_pair(view, array, np.array(rows, int))
            assert_same(got[0], plain_view[np.array(rows, int)])
            assert_same(got[1], plain[np.array(rows, int)])

    @rule()
    def a_write_that_fails(self) -> None:
        with pytest.raises(ValueError, match="broadcast"):
            self.arrays[0][...] = np.zeros((*self.plains[0].shape[:-1], self.plains[0].shape[-1] + 1), np.uint8)

    @invariant()
    def all_are_the_same(self) -> None:
        if not hasattr(self, "arrays"):
            return
        for array, plain in [*self.both(), *self.views, *self.kept]:
            assert_same(array, plain)
        check_store(*self.arrays, *(array for array, _ in self.kept))


def saved(array: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        ca.save(Path(folder) / "a.ca", array)
        return ca.load(Path(folder) / "a.ca")


LEVELS = [1, 2, 3, 8, 64]
NAMES = [*(f"delta/{level}" for level in LEVELS), "auto"]
NAMES += [f"delta-zstd/{level}" for level in (1, 8, 64)] if "delta-zstd" in CODECS else []
SLOW = ("delta/2", "delta/3", "delta-zstd/8")  # whose groups are neither of one frame nor as long as can be


@pytest.mark.parametrize(
    ("examples", "steps"), [(20, 25), pytest.param(150, 50, marks=pytest.mark.slow)], ids=["short", "long"]
)
@pytest.mark.parametrize("codec", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in NAMES])
def test_any_sequence_leaves_both_the_same(
    codec: str, examples: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Segments of some pages, so that a few writes already fill, empty and rewrite some.
    monkeypatch.setattr(_heap, "SMALLEST_SEGMENT", 16 * 1024)
    monkeypatch.setattr(_heap, "LARGEST_SEGMENT", 32 * 1024)
    machine = type("Machine", (TwoOnOne,), {"codec": codec})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps))
