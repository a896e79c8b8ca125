"""A signal's handler that uses an array comes at any point of what its own thread does with it.

Python calls handlers between two lines, so a function that is called before a certain line is as good as one.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from device_streams import Twins
from streams import Stacked

import compressed_array as ca

SOURCES = str(Path(ca.__file__).parent)


class Interruption:
    """Calls `handler` before the nth line of the package that runs while this is entered."""

    def __init__(self, nth: int, handler: Callable[[], None]) -> None:
        self.left, self._handler = nth, handler

    def __enter__(self) -> Interruption:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        self.left -= event == "line"
        if event == "line" and self.left == 0:
            sys.settrace(None)
            self._handler()
        return self._trace


@pytest.mark.parametrize("codec", ["delta", "rle"])
@pytest.mark.parametrize("during", ["step", "read", "sweep"])
@pytest.mark.parametrize("does", ["read", "write", "pickle"])
def test_handlers_are_served_or_refused(codec: str, during: str, does: str) -> None:
    twins = Twins(codec, 20, Stacked(2, 4, (1, 12, 12), episode=7))
    twins.add(13)
    array, plain = twins.arrays[0], twins.plains[0]
    outcomes = {"served": 0, "refused": 0}

    def handler() -> None:
        try:
            if does == "write":
                array[19] = torch.full((2, 4, 12, 12), nth % 256, dtype=torch.uint8)
                plain[19] = nth % 256
            got = pickle.loads(pickle.dumps(array))[:] if does == "pickle" else array[:]
            for row in range(20):  # what is being written is there or not
                assert torch.equal(got[row], plain[row]) or (during == "step" and torch.equal(got[row], written))
            outcomes["served"] += 1
        except ca.BusyStoreError:
            outcomes["refused"] += 1

    for nth in range(1, 4000):
        step, row = twins.stream.step(), twins.at % 19
        written = torch.from_numpy(step.obs)
        if during != "step":
            array[row] = plain[row] = written
        before = plain.clone()
        with Interruption(nth, handler) as interruption:
            if during == "step":
                array[row] = step.obs
            elif during == "read":
                got = array[:]
            else:
                array.store.sweep()
        if during == "read":
            assert torch.equal(got[:19], before[:19])
        plain[row] = written
        twins.at += 1
        if nth % 5 == 0:
            assert torch.equal(array[:], plain)
        if interruption.left > 0 and nth > 150:  # steps differ in how much there is to do
            break
    assert torch.equal(array[:], plain)
    assert all(outcomes.values())
    assert np.count_nonzero(plain.numpy())
