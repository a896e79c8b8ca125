"""Another thread changes the items while they are written: what is stored may be either, and nothing later is wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array._runtime import loading

SHAPE = (2, 4, 128, 128)


@contextmanager
def changing(items: Any, others: list[Any]) -> Iterator[None]:
    """Puts other items in place of these all the time."""
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            for other in others:
                np.copyto(items, other)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def laid_out(items: Any, order: str) -> Any:
    """Equal items, in C order or as channels last."""
    return np.array(items) if order == "C" else np.array(np.moveaxis(items, 1, -1), order="C").transpose(0, 3, 1, 2)


@pytest.mark.parametrize("rounds", [40, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("order", ["C", "channels last"])
@pytest.mark.parametrize("key", ["row", "rows"])
@pytest.mark.parametrize("kernels", [True, False])
def test_what_a_stream_remembers_is_what_was_stored(
    kernels: bool, key: str, order: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernels and not ca.has_numba():
        pytest.skip("there are no kernels")
    if not kernels:
        monkeypatch.setattr(
            loading,
            "_found",
            dict.fromkeys(("_runtime.numba_tools", "_stores.frames.kernels.write", "_stores.frames.kernels.read")),
        )
        rounds //= 10
    rng = np.random.default_rng(0)
    array = ca.zeros((6, *SHAPE), np.uint8, item_ndim=3, codec="delta")
    frames = rng.integers(0, 256, (12, 2, *SHAPE[2:]), np.uint8)
    for t in range(4):  # by which it is seen that these are stacks of four frames
        array[t] = laid_out(frames[t : t + 4].swapaxes(0, 1), order)
    # The same old frames with other new ones, and nothing in common.
    stacks = [np.stack([*frames[4:7], frames[k]]).swapaxes(0, 1) for k in (7, 8)]
    stacks = [laid_out(stack, order) for stack in (*stacks, frames[8:12].swapaxes(0, 1))]
    shown = laid_out(stacks[0], order)
    with changing(shown, stacks):
        for t in range(rounds):
            for stack in stacks:
                if key == "row":
                    array[4] = shown
                else:
                    array[4:5] = shown[None]
                # If this is what the lane took them for, it is not stored again, and has to be what is there.
                array[5] = stack
                np.testing.assert_array_equal(array.read(5), stack, err_msg=f"round {t}")
