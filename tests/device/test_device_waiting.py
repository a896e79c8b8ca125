"""Steps that wait on the host until they are stored: nobody notices that they do, whatever else happens meanwhile."""

from __future__ import annotations

import gc
import pickle
import threading
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from compressed_array.codecs.delta import Delta
from compressed_array.torch import DeviceArray, _host_lanes, _lanes
from compressed_array.torch._coders import delta
from core_helpers.streams import Stacked
from device_helpers.device_streams import Twins, sweep
from device_helpers.faults import FAULTS, name_of

SHAPE = (4, 20, 20)


def full(value: int, *lead: int) -> torch.Tensor:
    return torch.full((*lead, *SHAPE), value, dtype=torch.uint8)


class Workshop(Twins):
    """All that may be done with two arrays on one store between their steps."""

    def __init__(self, lanes: int) -> None:
        super().__init__("delta", 25, Stacked(lanes, 4, (1, 20, 20), episode=9))
        self.lanes = lanes
        self.add(8)  # it is known how frames are stacked

    def step(self, count: int) -> None:
        self.add(count)

    def step_and_change(self, value: int) -> None:
        items = full(value, self.lanes).numpy()
        self.arrays[0][self.at] = items
        self.plains[0][self.at] = torch.from_numpy(items.copy())
        items[:] += 1  # as an environment does that uses its memory again

    def same_row_again(self, value: int) -> None:
        row = value % self.rows
        for written in (full(value, self.lanes), full(value + 1, self.lanes)):
            self.arrays[1][row - self.rows] = written
            self.plains[1][row] = written

    def some_rows(self, value: int) -> None:
        low = value % 20
        self.arrays[0][low : low + 5] = full(value, 5, self.lanes)
        self.plains[0][low : low + 5] = full(value, 5, self.lanes)

    def read(self, _: int) -> None:
        self.check()

    def sweep(self, value: int) -> None:
        self.arrays[0].compact() if value % 2 else sweep(self.store)

    def travel(self, value: int) -> None:
        if value % 2:
            self.arrays = pickle.loads(pickle.dumps(self.arrays))
        else:
            self.arrays[0].load_state_dict(self.arrays[0].state_dict())
            self.plains[1].zero_()

    def other_grid(self, value: int) -> None:
        """An array of the same items with more lanes; it does not live long."""
        other = DeviceArray((5, self.lanes + 2, *SHAPE), item_ndim=3, store=self.store)
        other[2] = full(value, self.lanes + 2)
        if value % 3:
            assert torch.equal(other[2], full(value, self.lanes + 2))

    def apart(self, _: int) -> None:
        swapped, plain = self.arrays[0].swapaxes(0, 1), self.plains[0].transpose(0, 1).clone()
        self.add(2)
        assert torch.equal(swapped[:], plain)

    @property
    def store(self) -> Any:
        return self.arrays[0].store


DEEDS = [name for name in vars(Workshop) if not name.startswith("_") and name != "store"]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 3]), st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(1, 40)), max_size=25))
def test_arrays_hold_what_was_written(lanes: int, deeds: list[tuple[str, int]]) -> None:
    work = Workshop(lanes)
    for name, value in deeds:
        getattr(work, name)(value)
    work.check()
    assert int(work.arrays[0].count_written()) == int((work.arrays[0].cells != 0).sum())


class Operations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_a_step_asks_nothing_of_the_device_until_there_are_some() -> None:
    twins = Twins("delta", 60, Stacked(3, 4, (1, 20, 20), episode=100))
    twins.add(10)
    counts = []
    for step in twins.stream.steps(4 * delta.KEY_EVERY):
        with Operations() as seen:
            for array, items in zip(twins.arrays, step[:2], strict=True):
                array[0] = items
        counts.append(seen.count)
    assert 0 < np.count_nonzero(counts) <= 5


@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", ["read", "sweep"])
def test_what_waits_is_not_lost_when_storing_it_fails(fault: Any, when: str, how: str) -> None:
    where, name = fault
    real = getattr(where, name)
    twins = Twins("delta", 30, Stacked(3, 4, (1, 20, 20), episode=9))
    store = twins.arrays[0].store
    twins.add(12)
    for steps in (1, 2, 7, 15):
        twins.add(steps)

        def failing(*args: Any, **options: Any) -> Any:
            if when == "after":
                real(*args, **options)
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(where, name, failing)
            for _ in range(2):
                try:
                    twins.check() if how == "read" else sweep(store)
                except KeyboardInterrupt:
                    continue
        twins.check()
        twins.add(3)
    twins.check()


@pytest.mark.parametrize("after", ["host", "device"])
def test_lanes_do_not_go_by_an_item_that_was_interrupted(after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    twins = Twins("delta", 30, Stacked(3, 4, (1, 20, 20), episode=9))
    twins.add(12)
    real = _host_lanes.HostComparison.take_new_frames
    interrupted = full(77, 3)

    def failing(*args: Any) -> Any:
        real(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_host_lanes.HostComparison, "take_new_frames", failing)
        with pytest.raises(KeyboardInterrupt):
            twins.arrays[0][5] = interrupted
    if after == "device":
        monkeypatch.setattr(_lanes, "is_on_host", lambda items: isinstance(items, np.ndarray))
    twins.arrays[0][6] = twins.plains[0][6] = interrupted
    twins.check()
    twins.add(20)
    twins.check()


def test_an_array_that_is_gone_waits_for_nothing() -> None:
    twins = Twins("delta", 30, Stacked(3, 4, (1, 20, 20), episode=9))
    twins.add(12)
    other = DeviceArray(twins.arrays[0].shape, item_ndim=3, store=twins.arrays[0].store)
    other[3] = full(9, 3)
    del other
    gc.collect()
    twins.add(2)
    twins.check()
    assert len(twins.arrays[0].store.holders) == 2


@pytest.mark.parametrize("layout", [(1, 4), (3, 3)])
def test_new_frames_are_the_same_without_kernels(layout: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for is_native in (True, False):
        if not is_native:
            monkeypatch.setattr(_host_lanes, "native", lambda name: None)
        twins = Twins("delta", 30, Stacked(layout[0], layout[1], (1, 20, 20), episode=9))
        twins.add(14)
        waiting = twins.arrays[0].store.frames.pending
        which = np.flatnonzero(np.repeat(waiting.count_new(None) > 0, layout[1]))
        which = which[which % layout[1] == layout[1] - 1]
        found.append((waiting.steps, waiting.count_new(None), waiting.frames(which, torch.device("cpu"))))
        twins.check()
    (steps, new, frames), (others, new_too, frames_too) = found
    assert steps == others > 1
    np.testing.assert_array_equal(new, new_too)
    assert torch.equal(frames, frames_too)


def test_what_waits_is_not_lost_when_memory_stays_out() -> None:
    class NoMemory(TorchDispatchMode):
        """From the nth operation on, every one fails."""

        def __init__(self, nth: int) -> None:
            super().__init__()
            self.left = nth

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.left -= 1
            if self.left < 0:
                raise torch.OutOfMemoryError("no memory")
            return func(*args, **(kwargs or {}))

    twins = Twins("delta", 30, Stacked(3, 4, (1, 20, 20), episode=9))
    twins.add(12)
    for nth in range(300):
        twins.add(1 + nth % 3)
        state = NoMemory(nth)
        try:
            with state:
                sweep(twins.arrays[0].store) if nth % 2 else twins.arrays[0][:]
        except torch.OutOfMemoryError:
            twins.check()
    assert state.left >= 0, "there are not so many operations"
    twins.check()


def test_arrays_made_in_inference_mode_do_not_stop_others() -> None:
    twins = Twins("delta", 30, Stacked(3, 4, (1, 20, 20), episode=9))
    twins.add(12)
    with torch.inference_mode():
        made = [
            twins.arrays[0].reshape(30, 3, *SHAPE),
            twins.arrays[0].swapaxes(0, 1).swapaxes(0, 1),
            DeviceArray(twins.arrays[0].shape, item_ndim=3, store=twins.arrays[0].store),
            pickle.loads(pickle.dumps(twins.arrays[0])),
        ]
    for array in made:
        array[3] = full(9, 3)
        assert torch.equal(array[3], full(9, 3))
    twins.add(2)
    twins.check()


def test_pickles_hold_together_while_another_thread_writes() -> None:
    array = DeviceArray((20, 2, *SHAPE), item_ndim=3, codec=Delta(frame_width=1))
    stop = threading.Event()

    def write() -> None:
        frames = [np.full((2, 20, 20), k, np.uint8) for k in range(4)]
        for step in range(10**6):
            if stop.is_set():
                return
            frames = [*frames[1:], np.full((2, 20, 20), (step + 4) % 256, np.uint8)]
            array[step % 20] = np.stack(frames, 1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(40):
            for got in (pickle.loads(pickle.dumps(array))[:], array.reshape(40, *SHAPE)[:].reshape(array.shape)):
                each = got[..., :1, :1].to(torch.int64)
                assert bool((got == each).all()), "frames are of one number"
                follows = (each[:, :, 1:] - each[:, :, :-1]) % 256 == 1
                assert bool((follows.flatten(1).all(1) | (got == 0).flatten(1).all(1)).all()), "that follow each other"
    finally:
        stop.set()
        writer.join()
