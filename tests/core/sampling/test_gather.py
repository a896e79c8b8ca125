"""`Gather` beside numpy's own indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array.sampling import Gather, Table

SIZE = 50
needs_kernels = pytest.mark.skipif(not ca.has_numba(), reason="there are no kernels here")
kinds = st.tuples(st.sampled_from([*range(1, 20), 31, 32, 33, 63, 64, 68, 100, 1023, 1024, 1500]), st.integers(0, 2))


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def table_of(rows: Any, through: Any) -> Table:
    if through is None:
        return Table(address(rows), rows.shape[1], len(rows))
    return Table(address(rows), rows.shape[1], len(rows), address(through), through.itemsize)


@needs_kernels
@given(st.lists(kinds, max_size=6), st.integers(0, 80), st.integers(0, 99))
def test_rows_of_any_length(kinds: list[tuple[int, int]], count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, 256, (SIZE * 3 if through else SIZE, nbytes), np.uint8) for nbytes, through in kinds]
    numbers = {1: np.int32, 2: np.int64}
    throughs = [rng.integers(0, 3 * SIZE, SIZE).astype(numbers[kind]) if kind else None for _, kind in kinds]
    positions = rng.integers(0, SIZE, count)
    # With a row more than asked for, which has to stay as it is.
    targets = [np.full((count + 1, nbytes), 77, np.uint8) for nbytes, _ in kinds]
    gather = Gather(SIZE, [table_of(*table) for table in zip(rows, throughs, strict=True)])
    assert gather.into(address(positions), count, [address(target) for target in targets])
    for table, through, target in zip(rows, throughs, targets, strict=True):
        which = positions if through is None else through[positions]
        assert np.array_equal(target[:-1], table[which])
        assert (target[-1] == 77).all()


@needs_kernels
@pytest.mark.parametrize("wrong", [-1, SIZE, -(2**63), 2**62])
@pytest.mark.parametrize("nbytes", [1, 4, 8, 68])
def test_what_is_not_there(wrong: int, nbytes: int) -> None:
    rows, target = np.zeros((SIZE, nbytes), np.uint8), np.zeros((9, nbytes), np.uint8)
    positions, through = np.zeros(9, np.int64), np.zeros(SIZE, np.int64)
    direct, pointed = Gather(SIZE, [table_of(rows, None)]), Gather(SIZE, [table_of(rows, through)])
    assert pointed.into(address(positions), 9, [address(target)])
    through[0] = wrong
    assert direct.into(address(positions), 9, [address(target)])
    assert not pointed.into(address(positions), 9, [address(target)])
    positions[8] = wrong
    assert not direct.into(address(positions), 9, [address(target)])
    assert not direct.into(address(positions), 8, [])


def test_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compressed_array.sampling._gather.native", lambda module: None)
    assert not Gather(0, []).into(0, 0, [])
