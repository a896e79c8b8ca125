"""How items are stacked is found from what is written, or given; what is wrong is refused, what is no stack is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array._stores.frames.layouts import Layout
from compressed_array._stores.frames.store import FrameStore
from compressed_array.codecs.delta import Delta
from core_helpers.arrays import assert_same
from core_helpers.streams import FRAME_CODECS, Screens, Stacked, check_store, frames_stored, pair


def layout_of(array: Any) -> tuple[int, int, int]:
    layout = array.store._policy.settings.layout
    return (layout.depth, layout.axis, layout.width) if layout.depth > 1 else (1, 0, 0)


def filled(stream: Stacked, steps: int, codec: Any = "delta") -> tuple[Any, np.ndarray[Any, Any]]:
    obs = [step.obs for step in stream.steps(steps)]
    plain = np.stack(obs)
    array = ca.zeros(plain.shape, np.uint8, item_ndim=plain.ndim - 2, codec=codec)
    for t, items in enumerate(obs):
        array[t] = items
    return array, plain


@pytest.mark.parametrize("depth", [2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("codec", ["delta", "auto"])
def test_stacks_are_found(depth: int, channels: int, last: bool, codec: str) -> None:
    shape, axis = ((12, 13, channels), 2) if last else ((channels, 12, 13), 0)
    array, plain = filled(Stacked(2, depth, shape, axis=axis, episode=40), 60, codec)
    assert layout_of(array) == (depth, axis, channels)
    assert_same(array, plain)
    check_store(array)


@pytest.mark.parametrize("codec", ["delta", "auto"])
@pytest.mark.parametrize("last", [False, True])
def test_stacks_of_grey_frames_without_an_axis_for_channels(codec: str, last: bool) -> None:
    stream = Stacked(3, 4, (16, 17, 1) if last else (1, 16, 17), axis=2 if last else 0)
    array, plain = filled(stream, 40, codec)
    assert layout_of(array) == (4, 2 if last else 0, 1)
    assert_same(array, plain)


def test_a_stack_is_found_in_channel_last_memory_seen_channel_first() -> None:
    stream = Stacked(2, 4, (16, 17, 1), axis=2)
    obs = [step.obs for step in stream.steps(40)]
    plain = np.moveaxis(np.stack(obs), -1, 2)
    array = ca.zeros(plain.shape, np.uint8, item_ndim=3, codec="delta")
    for t, items in enumerate(obs):
        array[t] = np.moveaxis(items, -1, 1)
    assert layout_of(array) == (4, 0, 1)
    assert_same(array, plain)


def test_a_stack_is_found_in_one_large_batch() -> None:
    stream = Stacked(1, 4, (1, 20, 20), episode=1000)
    plain = np.concatenate([step.obs for step in stream.steps(300)])
    array = ca.compress(plain, codec="delta")
    assert layout_of(array) == (4, 0, 1)
    assert frames_stored(array.store) <= 310
    assert_same(array, plain)


def test_a_stack_is_found_where_obs_and_next_obs_are_written_in_turn() -> None:
    stream = Stacked(2, 4, (1, 20, 20))
    obs = ca.zeros((50, 2, 4, 20, 20), np.uint8, item_ndim=3, codec="delta")
    next_obs = ca.CompressedArray(obs.shape, np.uint8, item_ndim=3, store=obs.store)
    for t, step in enumerate(stream.steps(50)):
        obs[t], next_obs[t] = step.obs, step.next_obs
    assert layout_of(obs) == (4, 0, 1)


@pytest.mark.parametrize("kind", ["calm", "noise", "busy"])
@pytest.mark.parametrize("shape", [(20, 20), (4, 10, 10), (12, 40), (64,)])
def test_what_is_no_stack_is_not_taken_for_one(kind: str, shape: tuple[int, ...]) -> None:
    screens = Screens(0, shape, kind)
    plain = np.stack([screens.next() for _ in range(200)])
    array = ca.zeros(plain.shape, np.uint8, codec="delta")
    for t in range(0, 200, 2):
        array[t : t + 2] = plain[t : t + 2]
    if kind != "busy":  # which repeats itself, so that anything may look like a stack; that costs nothing
        assert layout_of(array) == (1, 0, 0)
    assert_same(array, plain)


def test_constant_frames_are_no_sign_of_a_stack() -> None:
    """Each frame is of one value, and items are of one value: that fits every way of stacking."""
    array = ca.zeros((300, 4, 20, 20), np.uint8, codec="delta")
    plain = np.zeros(array.shape, np.uint8)
    for t in range(100):
        plain[t] = t // 7
        array[t] = plain[t]
    assert layout_of(array) == (1, 0, 0)
    stream = Stacked(1, 4, (1, 20, 20))  # and what they are is still found when it shows
    for t in range(100, 300):
        plain[t] = stream.step().obs[0]
        array[t] = plain[t]
    assert_same(array, plain)
    check_store(array)


def test_blank_stacks_that_end_in_something_are_no_sign() -> None:
    """A reset's first frames are blank: an item with one frame that is not may be a stack of any width."""
    array = ca.zeros((60, 8, 10, 10), np.uint8, codec="delta")
    plain = np.zeros(array.shape, np.uint8)
    for t in range(60):
        plain[t, -1] = t
        array[t] = plain[t]
    assert layout_of(array) == (1, 0, 0)
    assert_same(array, plain)


def test_items_written_before_the_stack_was_found_stay_as_they_are() -> None:
    stream, screens = Stacked(1, 4, (1, 20, 20), episode=1000), Screens(9, (4, 20, 20))
    plain = np.stack([*(screens.next() for _ in range(10)), *(step.obs[0] for step in stream.steps(90))])
    array = ca.zeros(plain.shape, np.uint8, codec="delta")
    for t in range(100):
        array[t] = plain[t]
        if t % 10 == 9:
            assert_same(array[: t + 1], plain[: t + 1])
    array[:10] = plain[90:]
    assert_same(array[:10], plain[90:])
    check_store(array)


@pytest.mark.parametrize(("axis", "width", "depth"), [(0, 1, 4), (0, 2, 2), (-3, 1, 4), (1, 5, 4), (-1, 10, 2)])
def test_a_stack_can_be_given(axis: int, width: int, depth: int) -> None:
    """Whether it is right or not, what was written is what is read."""
    array, plain = filled(Stacked(2, 4, (1, 20, 20)), 40, Delta(stack_axis=axis, frame_width=width))
    assert layout_of(array) == (depth, axis % 3, width)
    assert_same(array, plain)
    check_store(array)


def test_a_given_axis_means_frames_of_width_one() -> None:
    assert Delta(stack_axis=-1).frame_width == 1
    array, plain = filled(Stacked(2, 4, (12, 13, 1), axis=2), 30, Delta(stack_axis=-1))
    assert layout_of(array) == (4, 2, 1)
    assert_same(array, plain)


def test_a_width_of_nothing_means_no_stack() -> None:
    array, plain = filled(Stacked(2, 4, (1, 20, 20)), 40, Delta(frame_width=0))
    assert layout_of(array) == (1, 0, 0)
    assert_same(array, plain)


@pytest.mark.parametrize(
    ("axis", "width"), [(3, 1), (-4, 1), (0, 3), (0, 5), (0, -1), (1, 1), (None, 7), (2, 40)], ids=str
)
def test_a_stack_that_cannot_be_is_refused(axis: int | None, width: int) -> None:
    with pytest.raises(ValueError, match=r"stack_axis|frame_width"):
        ca.zeros((50, 4, 20, 20), np.uint8, codec=Delta(stack_axis=axis, frame_width=width))


@pytest.fixture
def layouts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How deep the stacks are that stores have taken items for, one after the other."""
    depths: list[int] = []
    use = FrameStore._use_layout

    def noted(store: FrameStore, layout: Layout) -> None:
        depths.append(layout.depth)
        use(store, layout)

    monkeypatch.setattr(FrameStore, "_use_layout", noted)
    return depths


@pytest.mark.parametrize("codec", FRAME_CODECS)
@pytest.mark.parametrize("lanes", [1, 4, 16, 64])
def test_a_stack_is_not_lost_among_many_lanes(lanes: int, codec: str, layouts: list[int]) -> None:
    """The first item of each lane brings all of its frames, and at a first look there are few others."""
    steps, stream = 40 + 160 // lanes, Stacked(lanes, 4, (1, 24, 24), episode=1000)
    obs, next_obs = pair((steps, lanes, 4, 24, 24), codec, 3)
    for row, step in enumerate(stream.steps(steps)):
        ca.write_pair(obs, next_obs, row, step.obs, step.next_obs)
    assert layouts == [4]


@pytest.mark.parametrize("codec", FRAME_CODECS)
@pytest.mark.parametrize("batch", [2, 16, 100])
def test_a_stack_is_not_lost_in_writes_of_many_items(batch: int, codec: str, layouts: list[int]) -> None:
    plain = np.stack([step.obs[0] for step in Stacked(1, 4, (1, 24, 24), episode=1000).steps(600)])
    array = ca.zeros(plain.shape, plain.dtype, item_ndim=3, codec=codec)
    for low in range(0, 600, batch):
        array[low : low + batch] = plain[low : low + batch]
    assert layouts == [4]
    assert_same(array, plain)
