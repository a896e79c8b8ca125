"""A signal's handler that uses an array comes at any point of what its own thread does with it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import compressed_array as ca
from compressed_array.torch import DeviceArray
from core_helpers.interruptions import Interruption
from core_helpers.streams import Stacked
from device_helpers.device_streams import Twins, sweep

pytestmark = pytest.mark.long

POINTS = [*range(1, 100, 2), *range(100, 4000, 13)]


@pytest.mark.parametrize("codec", ["delta", pytest.param("rle", marks=pytest.mark.slow)])
@pytest.mark.parametrize("during", ["step", "read", "sweep", "pickle", "swap"])
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

    for nth in POINTS:
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
            elif during == "pickle":
                got = pickle.loads(pickle.dumps(array))[:]
            elif during == "swap":
                got = array.swapaxes(0, 1)[:].transpose(0, 1)
            else:
                sweep(array.store)
        if during in ("read", "pickle", "swap"):
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


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("codec", ["delta", "rle"])
@pytest.mark.parametrize("during", ["step", "rows", "read", "sweep", "compact", "state", "load", "pickle", "swap"])
def test_an_interrupt_at_any_point_leaves_an_array_that_works(codec: str, during: str) -> None:
    twins = Twins(codec, 20, Stacked(2, 4, (1, 12, 12), episode=7))
    twins.add(13)
    array, plain = twins.arrays[0], twins.plains[0]
    deeds: dict[str, Callable[[], Any]] = {
        "step": lambda: array.__setitem__(row, written),
        "rows": lambda: array.__setitem__(slice(row, row + 1), written[None]),
        "read": lambda: array[:],
        "sweep": lambda: sweep(array.store),
        "compact": array.compact,
        "state": lambda: array.state_dict(),
        "load": lambda: array.load_state_dict(state),
        "pickle": lambda: pickle.dumps(array),
        "swap": lambda: array.swapaxes(0, 1),
    }
    interrupted = 0
    for nth in POINTS:
        row, written = nth % 19, torch.from_numpy(twins.stream.step().obs)
        state = array.state_dict() if during == "load" else {}
        try:
            with Interruption(nth, interrupt) as interruption:
                deeds[during]()
        except KeyboardInterrupt:
            interrupted += 1
        got = array[row]
        assert torch.equal(got, plain[row]) or torch.equal(got, written)
        array[row] = plain[row] = torch.from_numpy(twins.stream.step().obs)
        if nth % 5 == 0:
            assert torch.equal(array[:], plain)
        if interruption.left > 0 and nth > 150:
            break
    assert torch.equal(array[:], plain)
    assert interrupted > 20


def test_an_interrupt_while_stacks_are_found_leaves_an_array_that_works() -> None:
    steps = [step.obs for step in Stacked(2, 4, (1, 12, 12), episode=50).steps(20)]
    trial = DeviceArray((20, 2, 4, 12, 12), item_ndim=3)
    found = next(t for t, step in enumerate(steps) if trial.__setitem__(t, step) or trial.store.frames is not None)
    for nth in range(1, 2000, 3):
        array = DeviceArray(trial.shape, item_ndim=3)
        for t in range(found):
            array[t] = steps[t]
        assert array.store.frames is None
        try:
            with Interruption(nth, interrupt) as interruption:
                array[found] = steps[found]
        except KeyboardInterrupt:
            got = array[:].numpy()
            assert all(np.array_equal(got[t], steps[t]) for t in range(found))
            assert np.array_equal(got[found], steps[found]) or not got[found].any()
        if interruption.left > 0:
            break
    assert nth > 50
