"""Arrays on a device beside other threads: a fork amid their use, and items that change while they are written."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest
import torch

from compressed_array._runtime import loading
from compressed_array.torch import DeviceArray
from core_helpers.streams import Stacked
from device_helpers.device_streams import Twins


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # which is what is tried
@pytest.mark.parametrize("forks", [4, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("does", ["write", "read"])
def test_a_child_forked_amid_another_threads_use_works(does: str, forks: int) -> None:
    twins = Twins("delta", 20, Stacked(2, 4, (1, 12, 12), episode=7))
    twins.add(25)
    array, plain = twins.arrays[0], twins.plains[0]
    stop, failures = threading.Event(), []

    def use() -> None:
        while not stop.is_set():
            if does == "write":
                for row in range(20):
                    array[row] = plain[row]
            elif not torch.equal(array[:], plain):
                failures.append("wrong in the parent")

    thread = threading.Thread(target=use)
    thread.start()
    try:
        for _ in range(forks):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # a hang is the end of it
                torch.set_num_threads(1)  # torch's own threads are not there in a child
                right = torch.equal(array[:], plain)
                array[3] = plain[4]
                os._exit(0 if right and torch.equal(array[3], plain[4]) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
    assert not failures


@pytest.mark.parametrize("rounds", [12, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("key", ["row", "rows"])
@pytest.mark.parametrize("kernels", [True, False])
def test_what_a_stream_remembers_is_what_was_stored(
    kernels: bool, key: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernels:
        monkeypatch.setattr(
            loading, "_found", dict.fromkeys(("_runtime.numba_tools", "_stores.frames.kernels.new_frames_for_device"))
        )
        rounds //= 3
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (12, 2, 96, 96), np.uint8)
    array = DeviceArray((7, 2, 4, 96, 96), item_ndim=3, codec="delta")
    for t in range(5):  # by which it is seen that these are stacks of four frames
        array[t] = np.array(frames[t : t + 4].swapaxes(0, 1))
    stacks = [np.stack([*frames[4:7], frames[k]], 1) for k in (7, 8)]
    stacks.append(np.array(frames[8:12].swapaxes(0, 1)))
    shown, stop = stacks[0].copy(), threading.Event()

    def change() -> None:
        while not stop.is_set():
            for other in stacks:
                np.copyto(shown, other)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(rounds):
            for stack in stacks:
                write(array, 5, shown, key)
                write(array, 6, stack, key)
                assert torch.equal(array[6], torch.from_numpy(stack))
    finally:
        stop.set()
        thread.join()


def write(array: Any, row: int, items: Any, key: str) -> None:
    if key == "row":
        array[row] = items
    else:
        array[row : row + 1] = items[None]
