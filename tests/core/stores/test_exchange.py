"""`exchange`: numbers into cells, and those that were there released, whatever Ctrl-C comes in between."""

from __future__ import annotations

import numpy as np
import pytest

from compressed_array._stores import protocol
from compressed_array._stores.protocol import RecordNumbers, exchange
from core_helpers.interruptions import Interruption


class Store:
    """Knows what it was told to release, and what of that it has released."""

    def __init__(self) -> None:
        self.listed: list[RecordNumbers] = []
        self.released: list[int] = []

    def release_later(self, numbers: RecordNumbers) -> None:
        self.listed.append(numbers)

    def release_listed(self) -> None:
        self.released += [int(n) for numbers in self.listed for n in numbers.reshape(-1) if n]
        self.listed.clear()


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_interrupt_at_any_point_finds_all_of_it_done_or_nothing(count: int) -> None:
    interrupted = []
    for nth in range(1, 300):
        store, cells = Store(), np.arange(1, 6 * count + 1, dtype=np.uint32).reshape(count, 6)
        new = [np.array([100 + 2 * i, 101 + 2 * i], np.uint32) for i in range(count)]
        everything = sorted([*cells.reshape(-1).tolist(), *np.concatenate(new).tolist()])
        keys = [np.array([4, 1]), slice(2, 4), slice(5, 3, -1)]
        try:
            with Interruption(nth, interrupt, sources=(protocol.__file__,)) as interruption:
                exchange(store, *zip(cells, keys, new))  # noqa: B905 - as many as there are arrays
        except KeyboardInterrupt:
            interrupted.append(interruption.where)
        is_put = [(row[key] >= 100).all() for row, key in zip(cells, keys)]  # noqa: B905 - as above
        assert len(set(is_put)) == 1, interruption.where
        store.release_listed()
        left = [n for numbers in new for n in numbers.tolist() if n]  # the caller's, still
        assert sorted([*cells.reshape(-1).tolist(), *store.released, *left]) == everything, interruption.where
        if interruption.left > 0:
            assert is_put[0]
            assert not left
            break
    assert len(set(interrupted)) > 5


def test_nothing_is_exchanged_where_a_key_is_out_of_range() -> None:
    store, cells = Store(), np.arange(1, 5, dtype=np.uint32)
    new = np.array([9, 8], np.uint32)
    with pytest.raises(IndexError):
        exchange(store, (cells, np.array([0, 7]), new))
    store.release_listed()
    assert cells.tolist() == [1, 2, 3, 4]
    assert sorted(store.released) == [8, 9]
