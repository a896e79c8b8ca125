"""The heap by itself: addresses stay right, segments come and go, and the count of bytes is the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from compressed_array import _heap
from compressed_array._heap import HostHeap
from compressed_array._runtime.payloads import Payloads


def payloads(parts: list[bytes]) -> Payloads:
    return Payloads.from_parts([np.frombuffer(part, np.uint8) for part in parts])


class HeapMachine(RuleBasedStateMachine):
    """A heap of small segments beside a dict of what it should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.heap, self.held = HostHeap(), {}
        self.limits = (_heap.SMALLEST_SEGMENT, _heap.LARGEST_SEGMENT)
        _heap.SMALLEST_SEGMENT = _heap.LARGEST_SEGMENT = 4096

    def teardown(self) -> None:
        _heap.SMALLEST_SEGMENT, _heap.LARGEST_SEGMENT = self.limits

    @rule(seed=st.integers(0, 10**9), count=st.integers(0, 30), longest=st.sampled_from([10, 500, 5000, 20000]))
    def append(self, seed: int, count: int, longest: int) -> None:
        rng = np.random.default_rng(seed)
        parts = [rng.bytes(int(rng.integers(1, longest))) for _ in range(count)]
        for address, part in zip(self.heap.append(payloads(parts)).tolist(), parts, strict=True):
            assert address not in self.held
            self.held[address] = part

    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        if self.held:
            gone = data.draw(st.lists(st.sampled_from(sorted(self.held)), unique=True))
            sizes = [len(self.held.pop(address)) for address in gone]
            self.heap.free(np.array(gone, np.int64), np.array(sizes, np.int64))

    @rule()
    def free_all(self) -> None:
        addresses = sorted(self.held)
        self.heap.free(np.array(addresses, np.int64), np.array([len(self.held[a]) for a in addresses], np.int64))
        self.held.clear()
        assert self.heap.nbytes <= 3 * 4096 + 32 * 1000

    @invariant()
    def everything_reads_back(self) -> None:
        addresses = np.array(sorted(self.held), np.int64)
        sizes = np.array([len(self.held[a]) for a in addresses.tolist()], np.int64)
        got = self.heap.payloads(addresses, sizes)
        for i, address in enumerate(addresses.tolist()):
            assert got[i].tobytes() == self.held[address]
        assert self.heap.nbytes >= int(sizes.sum())


TestHeap = HeapMachine.TestCase
TestHeap.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_a_payload_larger_than_a_segment_gets_one_of_its_own() -> None:
    heap = HostHeap()
    big = np.random.default_rng(0).bytes(10_000_000)
    (address,) = heap.append(payloads([big]))
    assert heap.payloads(np.array([address]), np.array([len(big)]))[0].tobytes() == big
    heap.append(payloads([b"small"]))
    heap.free(np.array([address]), np.array([len(big)]))
    assert heap.nbytes < 1_000_000


def test_no_memory_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="segment"):
        _heap.map_memory(1 << 60)


def test_untouched_memory_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    heap: Any = HostHeap()
    heap.append(payloads([b"x" * 100]))
    assert heap.nbytes < 10_000
