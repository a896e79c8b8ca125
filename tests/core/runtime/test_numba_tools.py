"""Kernels: what they move, how they are compiled, and that child processes can use them unprepared."""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np
import pytest

from compressed_array import get_codec
from core_helpers.children import round_trip_in_child

pytest.importorskip("numba")
pytestmark = pytest.mark.long


def test_gather() -> None:
    """Rows from `low` up to `high` are filled, and no other."""
    from compressed_array._runtime.numba_tools import address_of, gather

    source = np.arange(1000, dtype=np.uint8).reshape(10, 100)
    out = np.full((5, 100), 0xA5, np.uint8)
    which = np.array([7, 2, 2, 9, 0])
    gather(address_of(source) + which * 100, out, 1, 4)
    assert (out[1:4] == source[which[1:4]]).all()
    assert (out[[0, 4]] == 0xA5).all()


def test_pack() -> None:
    from compressed_array._runtime.numba_tools import address_of, pack

    source = np.arange(200, dtype=np.uint8)
    out = np.full(30, 0xA5, np.uint8)
    pack(np.array([10, 150]) + address_of(source), np.array([3, 5]), out, np.array([20, 2]))
    assert (out[20:23] == source[10:13]).all()
    assert (out[2:7] == source[150:155]).all()
    assert (np.delete(out, [*range(2, 7), *range(20, 23)]) == 0xA5).all()


def test_jit_without_a_place_for_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numba finds no directory to write to, a kernel is compiled all the same."""
    import numba

    from compressed_array._runtime.numba_tools import jit

    real = numba.njit

    def njit(*args: Any, cache: bool = False, **kwargs: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*args, **kwargs)

    monkeypatch.setattr(numba, "njit", njit)
    assert jit("int64(int64)")(lambda x: x + 1)(4) == 5


# Python warns of forking with threads about, which is what is tested: kernels do not depend on what a thread held.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children(method: str) -> None:
    """Kernels work in a child that was never told of them, after the parent has used them on several threads."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    names = [n for n in ("rle-jit", "zstd-3", "lz4-block") if _usable(n)]
    assert all(round_trip_in_child(name, 0) for name in names)
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert all(pool.starmap_async(round_trip_in_child, [(n, s) for n in names for s in (1, 2)]).get(120))


def _usable(name: str) -> bool:
    try:
        get_codec(name)
    except ImportError:
        return False
    return True
