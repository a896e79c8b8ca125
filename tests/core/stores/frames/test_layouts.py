"""Where frames lie in an item and in memory: any order of axes, any depth of stack, any hole in between."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array._stores.frames.layouts import Layout, divided, geometry, possible_stacks
from compressed_array._stores.frames.tables import FrameTables
from compressed_array.codecs.delta import Delta
from core_helpers.arrays import assert_same
from core_helpers.interruptions import Interruption
from core_helpers.streams import Stacked, check_store, frames_stored


def words(layout: Layout, shape: tuple[int, ...], itemsize: int, strides: tuple[int, ...]) -> list[int]:
    found = geometry(layout, shape, itemsize, strides)
    assert found is not None
    return [int(found.packed[name][0]) for name in ("item_nbytes", "depth", "frame_nbytes", "places", "run")]


def test_an_interrupt_leaves_no_layout_without_a_row_of_the_table() -> None:
    """A kernel that is told its number would read behind the table."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    left, nth = -1, 0
    while left < 0:
        nth += 1
        frames = FrameTables((4, 8, 8), 1, 256)
        frames.number_of(Layout.unstacked(256))
        with Interruption(nth, interrupt) as interruption, suppress(KeyboardInterrupt):
            frames.number_of(Layout.of((4, 8, 8), 1, 0, 1))
        assert len(frames.layouts) <= len(frames.layout_table), interruption.where
        assert frames.number_of(Layout.of((4, 8, 8), 1, 0, 1)) == 1
        assert frames.layout_table["depth"].tolist() == [1, 4]
        left = interruption.left
    assert nth > 2


def test_a_stack_in_c_order() -> None:
    layout = Layout.of((4, 84, 84), 1, 0, 1)
    assert layout[:3] == (4, 1, 84 * 84)
    assert words(layout, (4, 84, 84), 1, (84 * 84, 84, 1)) == [28224, 4, 7056, 1, 7056]


def test_channel_last_memory_seen_channel_first() -> None:
    layout = Layout.of((4, 84, 84), 1, 0, 1)
    assert words(layout, (4, 84, 84), 1, (1, 336, 4)) == [28224, 4, 7056, 7056, 1]


def test_colour_stacks_over_channel_last_memory() -> None:
    layout = Layout.of((12, 96, 96), 1, 0, 3)
    assert layout[:3] == (4, 1, 3 * 96 * 96)
    assert words(layout, (12, 96, 96), 1, (1, 12 * 96, 12)) == [12 * 96 * 96, 4, 3 * 96 * 96, 96 * 96, 3]


def test_a_stack_along_the_last_axis() -> None:
    layout = Layout.of((84, 84, 4), 1, 2, 1)
    assert layout[:3] == (4, 7056, 1)
    assert words(layout, (84, 84, 4), 1, (336, 4, 1)) == [28224, 4, 7056, 7056, 1]


@pytest.mark.parametrize(
    "strides",
    [(2, 672, 8), (0, 84, 1), (7056, 85, 1), (-7056, 84, 1), (7056, -84, 1), (7056, 84, 2), (84, 84, 1)],
    ids=str,
)
def test_what_is_not_dense_is_not_read_in_place(strides: tuple[int, ...]) -> None:
    assert geometry(Layout.of((4, 84, 84), 1, 0, 1), (4, 84, 84), 1, strides) is None
    assert geometry(Layout.unstacked(28224), (4, 84, 84), 1, strides) is None


def test_all_the_ways_to_be_a_stack() -> None:
    assert possible_stacks((4, 84)) == [(0, 2), (0, 1), (1, 42), (1, 28), (1, 21), (1, 14), (1, 12), (1, 7), (1, 6)]
    assert possible_stacks(()) == []
    assert possible_stacks((17,)) == []
    assert possible_stacks((16,))[-1] == (0, 1)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple), st.sampled_from([1, 2, 4, 8]), st.data())
def test_frames_in_c_order_are_numpys_slices(shape: tuple[int, ...], itemsize: int, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    width = data.draw(st.sampled_from([w for w in range(1, shape[axis] + 1) if shape[axis] % w == 0]))
    item = np.arange(int(np.prod(shape))).astype(f"u{itemsize}").reshape(shape)
    layout = Layout.of(shape, itemsize, axis, width)
    frames = np.split(item, layout.depth, axis)
    assert [row.tobytes() for row in divided(item, layout)] == [np.ascontiguousarray(f).tobytes() for f in frames]


@st.composite
def laid_out(draw: st.DrawFn) -> tuple[tuple[int, ...], int, int, tuple[int, ...], str]:
    """An item's shape, the stack's axis and width in it, the order its axes have in memory, and a dtype."""
    depth, width = draw(st.integers(1, 16)), draw(st.integers(1, 3))
    rest = draw(st.lists(st.integers(1, 7), max_size=2))
    axis = draw(st.integers(0, len(rest)))
    shape = (*rest[:axis], depth * width, *rest[axis:])
    order = tuple(draw(st.permutations(range(len(shape)))))
    return shape, axis, width, order, draw(st.sampled_from(["u1", "<u2", "<f4", "<f8"]))


@settings(max_examples=60)
@given(laid_out(), st.integers(0, 2**31), st.sampled_from([1, 3, 8, 64]))
def test_frames_are_taken_from_memory_in_any_order(
    how: tuple[tuple[int, ...], int, int, tuple[int, ...], str], seed: int, level: int
) -> None:
    """A stacked stream whose items lie in memory with their axes in any order costs one frame a step."""
    shape, axis, width, order, dtype = how
    depth, rng = shape[axis] // width, np.random.default_rng(seed)
    single = (*shape[:axis], width, *shape[axis + 1 :])
    frames = rng.integers(0, 4, (30 + depth, *single)).astype(dtype)
    array = ca.zeros((30, *shape), dtype, codec=Delta(level, axis, width))
    plain = np.concatenate([frames[i : i + 30] for i in range(depth)], axis=axis + 1)
    memory = np.ascontiguousarray(plain.transpose(0, *(1 + i for i in order)))
    given_ = memory.transpose(0, *(1 + order.index(i) for i in range(len(shape))))
    at = 0
    for size in (1, 2, 4, 8, 15):
        array[at : at + size] = given_[at : at + size]
        at += size
    assert_same(array, plain)
    assert_same(array[[29, 0, 3, 3, 17]], plain[[29, 0, 3, 3, 17]])
    assert frames_stored(array.store) <= depth + 29
    check_store(array)


def strided(kind: str, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same items in memory that is laid out in another way."""
    if kind == "channel-last":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(items, 1, -1)), -1, 1)
    if kind == "with holes":
        wide = np.zeros((*items.shape[:-1], 2 * items.shape[-1]), items.dtype)
        wide[..., ::2] = items
        return wide[..., ::2]
    if kind == "backwards":
        return np.ascontiguousarray(items[:, :, ::-1])[:, :, ::-1]
    if kind == "batch backwards":
        return np.ascontiguousarray(items[::-1])[::-1]
    return np.asfortranarray(items) if kind == "fortran" else items


KINDS = ["c", "channel-last", "with holes", "backwards", "batch backwards", "fortran"]


@pytest.mark.parametrize("codec", ["delta", Delta(stack_axis=0, frame_width=1), Delta(8, frame_width=0)], ids=repr)
def test_memory_of_every_kind_in_turn(codec: Any) -> None:
    """What a lane remembers is compared with what comes next, however that lies in memory."""
    stream = Stacked(lanes=1, depth=4, shape=(1, 18, 20), episode=1000)
    array = ca.zeros((120, 4, 18, 20), np.uint8, codec=codec)
    plain = np.zeros(array.shape, np.uint8)
    kinds = itertools.cycle(KINDS)
    for at in range(0, 120, 4):
        items = np.concatenate([stream.step().obs for _ in range(4)])
        plain[at : at + 4] = items
        array[at : at + 4] = strided(next(kinds), items)
    assert_same(array, plain)
    if codec == "delta" or codec.frame_width:
        assert frames_stored(array.store) < 2 * 120
    check_store(array)
