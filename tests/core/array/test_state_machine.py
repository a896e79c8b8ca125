"""Any sequence of operations on a compressed array and on a plain one leaves the two the same."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import compressed_array as ca
from compressed_array import _heap
from core_helpers.arrays import DTYPES, assert_same, keys, random_bits
from core_helpers.codecs import CODECS

pytestmark = pytest.mark.long

SHAPES = st.lists(st.integers(1, 4), min_size=2, max_size=4).map(tuple)


class SideBySide(RuleBasedStateMachine):
    """A compressed array and its plain twin, each with one view taken of it, changed in step."""

    codec: str

    @initialize(shape=SHAPES, dtype=st.sampled_from(DTYPES), data=st.data())
    def begin(self, shape: tuple[int, ...], dtype: np.dtype[Any], data: st.DataObject) -> None:
        item_ndim = data.draw(st.integers(0, len(shape)))
        self.plain = np.zeros(shape, dtype)
        self.array = ca.zeros(shape, dtype, item_ndim=item_ndim, codec=self.codec)
        self.views: list[tuple[Any, Any]] = [(self.array, self.plain)]

    def values(self, data: st.DataObject, shape: tuple[int, ...]) -> Any:
        seed = data.draw(st.integers(0, 2**32 - 1))
        bits = random_bits(shape, self.plain.dtype, np.random.default_rng(seed))
        if seed % 3 and bits.size and bits.dtype.kind != "V":  # most real items are mostly one value
            bits[...] = bits.reshape(-1)[0]
        return bits

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        array, plain = data.draw(st.sampled_from(self.views))
        key = data.draw(keys(plain.shape))
        value = self.values(data, np.shape(plain[key]))
        plain[key] = value
        array[key] = value

    @rule(data=st.data())
    def write_one_item_to_all(self, data: st.DataObject) -> None:
        array, plain = data.draw(st.sampled_from(self.views))
        value = self.values(data, array.item_shape)
        plain[...] = value
        array[...] = value

    @rule(data=st.data())
    def shift_onto_itself(self, data: st.DataObject) -> None:
        array, plain = data.draw(st.sampled_from(self.views))
        if array.grid_shape and plain.shape[0] > 1:
            plain[1:] = plain[:-1].copy()
            array[1:] = array[:-1]

    @rule(data=st.data())
    def take_a_view(self, data: st.DataObject) -> None:
        array, plain = data.draw(st.sampled_from(self.views))
        grid = array.grid_shape
        if not grid:
            return
        key = tuple(data.draw(st.slices(side)) for side in grid)
        array, plain = array[key], plain[key]
        if data.draw(st.booleans()):
            order = [*data.draw(st.permutations(range(len(grid)))), *range(len(grid), plain.ndim)]
            array, plain = array.transpose(order), plain.transpose(order)
        self.views = [*self.views[-3:], (array, plain)]

    @rule(how=st.sampled_from(["copy", "deepcopy", "pickle", "recompress"]))
    def replace_by_a_copy(self, how: str) -> None:
        old, before = self.array, self.plain.copy()
        if how == "copy":
            self.array = old.copy()
        elif how == "deepcopy":
            self.array = copy.deepcopy(old)
        elif how == "pickle":
            self.array = pickle.loads(pickle.dumps(old))
        else:
            self.array = ca.compress(old, codec=self.codec)
        old[...] = np.zeros((), old.dtype)  # what happens to the original is nothing to the copy
        self.plain = before
        self.views = [(self.array, self.plain)]

    @rule(data=st.data())
    def pickle_a_view(self, data: st.DataObject) -> None:
        array, plain = data.draw(st.sampled_from(self.views))
        assert_same(pickle.loads(pickle.dumps(array)), plain)

    @rule(data=st.data())
    def read_by_key(self, data: st.DataObject) -> None:
        array, plain = data.draw(st.sampled_from(self.views))
        key = data.draw(keys(plain.shape))
        assert_same(array[key], plain[key])

    @rule(data=st.data())
    def a_write_that_fails(self, data: st.DataObject) -> None:
        with pytest.raises(ValueError, match="broadcast"):
            self.array[...] = self.values(data, (*self.plain.shape[:-1], self.plain.shape[-1] + 1))

    @invariant()
    def the_two_are_the_same(self) -> None:
        for array, plain in getattr(self, "views", []):
            assert_same(array, plain)


@pytest.mark.parametrize(
    ("examples", "steps"), [(25, 25), pytest.param(150, 50, marks=pytest.mark.slow)], ids=["short", "long"]
)
@pytest.mark.parametrize("codec", [*CODECS, "auto"])
def test_any_sequence_of_operations_leaves_both_the_same(
    codec: str, examples: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Segments of a page, so that a few writes already fill, empty and rewrite some.
    monkeypatch.setattr(_heap, "SMALLEST_SEGMENT", 4096)
    monkeypatch.setattr(_heap, "LARGEST_SEGMENT", 4096)
    machine = type("Machine", (SideBySide,), {"codec": codec})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps))


@pytest.mark.parametrize("codec", CODECS)
def test_random_overwrites_for_a_long_time(
    codec: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Long enough for segments to fill with garbage and be rewritten many times over, while views look on."""
    monkeypatch.setattr(_heap, "SMALLEST_SEGMENT", 8192)
    monkeypatch.setattr(_heap, "LARGEST_SEGMENT", 16384)
    plain = np.zeros((64, 3, 40), np.uint16)
    array = ca.zeros(plain.shape, plain.dtype, item_ndim=1, codec=codec)
    view, plain_view = array[::2], plain[::2]
    kept, kept_plain = array.copy(), plain.copy()
    for step in range(600):
        rows = rng.integers(0, 64, rng.integers(1, 12))
        value = rng.integers(0, 4 if step % 2 else 60000, (len(rows), 3, 40)).astype(np.uint16)
        plain[rows] = value
        array[rows] = value
        if step % 100 == 50:
            kept, kept_plain = array.copy(), plain.copy()
        if step % 20 == 0:
            assert_same(view, plain_view)
            assert_same(kept, kept_plain)
    assert_same(array, plain)
    live = array.copy()
    del array, view, kept
    assert live.nbytes_stored <= 2.5 * plain.nbytes + 8 * 16384, "garbage was left lying about"
