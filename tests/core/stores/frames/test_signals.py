"""A signal's handler that uses an array comes at any point of what its own thread does with it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from core_helpers.codecs import CODECS
from core_helpers.interruptions import Interruption
from core_helpers.streams import Stacked

pytestmark = pytest.mark.long

ROWS, ALL = 20, np.arange(20)
STORES = [name for name in ("delta", "delta-zstd", "gzip1") if name in CODECS]
# What may be asked for in the middle of a change, since it changes nothing; and what is refused there.
SERVED = ["read", "pickle", "size"]
REFUSED = ["write", "rest", "copy"]


class Interrupted:
    """An array, a plain one beside it, and a handler."""

    def __init__(self, codec: str, kind: str) -> None:
        self.stream = Stacked(2, 4, (1, 12, 12), kind, episode=7)
        self.array = ca.zeros((ROWS, *self.stream.items().shape), np.uint8, item_ndim=4, codec=codec)
        self.plain = np.zeros(self.array.shape, np.uint8)
        self.served = self.refused = 0
        for row, step in zip(range(ROWS - 1), self.stream.steps(ROWS - 1), strict=True):
            self.array[row] = self.plain[row] = step.obs

    def use(self, does: str) -> Any:
        array = self.array
        if does == "write":
            value = np.full(array.shape[1:], self.served % 256, np.uint8)
            array[ROWS - 1] = value
            self.plain[ROWS - 1] = value
        elif does == "rest":
            array.store.compact()
        elif does == "size":
            assert array.nbytes_stored > 0
        elif does == "pickle":
            return pickle.loads(pickle.dumps(array))
        elif does == "copy":
            return array.copy()
        return array

    def handle(self, does: str, row: int, written: Any) -> None:
        try:
            got = self.use(does).read(ALL)
            for at in range(ROWS):  # what is being written is there or not
                assert np.array_equal(got[at], self.plain[at]) or (at == row and np.array_equal(got[at], written))
            self.served += 1
        except ca.BusyStoreError:
            self.refused += 1

    def change(self, during: str, row: int, written: Any) -> None:
        if during == "step":
            self.array[row] = written
        elif during == "slice":
            self.array[row : row + 1] = written[None]
        elif during == "rest":
            self.array.store.compact()
        else:
            assert self.array.nbytes_stored > 0


@pytest.mark.parametrize(
    "codec", [pytest.param(s, marks=pytest.mark.slow if s == "delta-zstd" else ()) for s in STORES]
)
@pytest.mark.parametrize("during", ["step", "slice", "rest", "size"])
@pytest.mark.parametrize("does", [*SERVED, *REFUSED])
def test_handlers_are_served_or_refused(codec: str, during: str, does: str) -> None:
    used = Interrupted(codec, "calm")
    for nth in range(1, 400):
        step, row = used.stream.step(), nth % (ROWS - 1)
        if during in ("rest", "size"):
            used.array[row] = used.plain[row] = step.obs
        with Interruption(nth, lambda row=row, step=step: used.handle(does, row, step.obs)) as interruption:
            used.change(during, row, step.obs)
        if during in ("step", "slice"):
            used.plain[row] = step.obs
        if nth % 5 == 0:
            np.testing.assert_array_equal(used.array.read(ALL), used.plain)
        if interruption.left > 0 and nth > 60:  # steps differ in how much there is to do
            break
    np.testing.assert_array_equal(used.array.read(ALL), used.plain)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(used.array)).read(ALL), used.plain)
    assert used.served
    # Without kernels, items of a store of frames are not whole at every point.
    is_whole = ca.has_numba() or not codec.startswith("delta")
    assert bool(used.refused) == (does in REFUSED or (does == "pickle" and not is_whole))


@pytest.mark.parametrize("codec", [name for name in STORES if name.startswith("delta")])
@pytest.mark.skipif(not ca.has_numba(), reason="without kernels, pickles amid a write are refused")
def test_arrays_that_a_handler_pickles_still_share_a_store(codec: str) -> None:
    used = Interrupted(codec, "calm")
    pickles: list[bytes] = []
    for nth in range(1, 25):
        both, step = [used.array, used.array.copy()], used.stream.step()
        with Interruption(nth, lambda both=both: pickles.append(pickle.dumps(both))):
            used.array[1] = step.obs
        one, two = pickle.loads(pickles[-1])
        assert one.store is two.store
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(used.array)).read(1), step.obs)
    assert len(pickles) > 20


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("codec", STORES)
@pytest.mark.parametrize("kind", ["calm", "noise"])
@pytest.mark.parametrize("during", ["step", "slice", "rest", "size"])
def test_an_interrupt_at_any_point_leaves_an_array_that_works(codec: str, kind: str, during: str) -> None:
    if during in ("step", "slice") and codec.startswith("delta") and not ca.has_numba():
        pytest.skip("without kernels, a frame is written in many steps, between which an interrupt may come")
    used = Interrupted(codec, kind)
    interrupted = 0
    for nth in range(1, 400):
        step, row = used.stream.step(), nth % (ROWS - 1)
        try:
            with Interruption(nth, interrupt) as interruption:
                used.change(during, row, step.obs)
        except KeyboardInterrupt:
            interrupted += 1
        got = used.array.read(row)
        assert np.array_equal(got, used.plain[row]) or np.array_equal(got, step.obs)
        used.array[row] = used.plain[row] = used.stream.step().obs
        if nth % 5 == 0:
            np.testing.assert_array_equal(used.array.read(ALL), used.plain)
        if interruption.left > 0 and nth > 60:
            break
    np.testing.assert_array_equal(used.array.read(ALL), used.plain)
    assert interrupted
