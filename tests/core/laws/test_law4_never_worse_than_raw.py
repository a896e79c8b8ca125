"""Law 4: a record that does not shrink is stored as it is, at a few bytes of overhead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array._stores.cells import RAW
from compressed_array._stores.frames.store import FrameStore
from core_helpers.arrays import assert_same

PER_RECORD = 4 + 12 + 2  # the cell, the two tables, their room to grow
SLACK = 64 * 1024
ZSTD = 512 * 1024  # what it takes to compress with a dictionary


def stored_raw(array: Any) -> np.ndarray[Any, Any]:
    numbers = array.cells.numbers.reshape(-1)
    return np.asarray(array.store.export(numbers)[0].tag == RAW)


@pytest.mark.parametrize("shape", [(2000, 512), (300, 4, 1000), (20000, 16)])
def test_noise_costs_its_own_size(codec: str, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    noise = rng.integers(0, 256, shape).astype(np.uint8)
    array = ca.compress(noise, item_ndim=1, codec=codec)
    assert_same(array, noise)
    assert isinstance(array.store, FrameStore) or stored_raw(array).all()
    slack = SLACK + (ZSTD if codec == "delta-zstd" else 0)
    assert array.nbytes_stored <= noise.nbytes + PER_RECORD * noise.size // shape[-1] + slack


def test_noise_and_calm_in_one_array(codec: str, rng: np.random.Generator) -> None:
    plain = np.ones((64, 4096), np.uint8)
    plain[1::2] = rng.integers(0, 256, (32, 4096))
    array = ca.compress(plain, codec=codec)
    assert_same(array, plain)
    assert_same(array[[1, 0, 3, 3, 2, 63]], plain[[1, 0, 3, 3, 2, 63]])
    if codec != "none" and not isinstance(array.store, FrameStore):
        assert list(stored_raw(array)) == [False, True] * 32


def test_one_value_for_all_cells_is_kept_once(codec: str) -> None:
    array = ca.full((5000, 2, 64, 64), 7, np.uint8, item_ndim=2, codec=codec)
    assert array.nbytes_stored < 5 * 10_000 + 4 * 10_000 + SLACK
    array[3, 1] = 8
    assert (array[3, 1] == 8).all()
    assert (array[3, 0] == 7).all()
    assert (array[4999, 1] == 7).all()


def test_cells_that_were_never_written_are_free() -> None:
    array = ca.zeros((1_000_000, 4, 84, 84), np.uint8, item_ndim=3)
    assert array.nbytes == 28_224_000_000
    assert array.nbytes_stored < 4_100_000  # four bytes of index a cell
    assert not array[[0, 999_999]].any()
    array[5] = 1
    array[5] = 0
    assert array.nbytes_stored < 4_200_000
