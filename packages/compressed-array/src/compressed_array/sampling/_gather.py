"""`Gather`: the rows of several tables at the same positions, copied in one native call.

A batch of many small parts takes most of its time to ask for each of them. A framework that has its tables and batches
in tensors gives their addresses: to make an array of each takes as long as letting the framework gather by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from compressed_array._runtime.loading import native


class Table(NamedTuple):
    """Rows of memory one behind the other, or those that whole numbers in other memory point to."""

    address: int
    row_nbytes: int
    rows: int
    through: int = 0  # the address of `size` whole numbers, each the row for a position; 0 for the rows themselves
    through_nbytes: int = 0  # of each of them: 4 or 8


# The tables as the kernel is given them, which knows the fields by name.
TABLE = np.dtype([(name, np.int64) for name in Table._fields])


class Gather:
    """Copies rows of several tables at the same positions.

    Args:
        size: How many positions each table has.
        tables: Where the tables are. The caller keeps their memory alive.

    >>> import numpy as np
    >>> rewards, actions = np.arange(5.0), np.arange(5, dtype=np.int32)
    >>> gather = Gather(5, [Table(rewards.ctypes.data, 8, 5), Table(actions.ctypes.data, 4, 5)])
    >>> positions, some, others = np.array([1, 3], np.int64), np.empty(2), np.empty(2, np.int32)
    >>> if not gather.into(positions.ctypes.data, 2, [some.ctypes.data, others.ctypes.data]):
    ...     some, others = rewards[positions], actions[positions]  # without numba
    >>> some.tolist(), others.tolist()
    ([1.0, 3.0], [1, 3])
    """

    def __init__(self, size: int, tables: Sequence[Table]) -> None:
        self._size, self._tables = size, np.array(list(tables), TABLE)

    def into(self, positions: int, count: int, targets: Sequence[int]) -> bool:
        """Copies rows, and returns whether that was possible.

        It is not if there are no kernels, or a position or row is out of range: what was written is then of no use. The
        caller keeps all of the memory alive, and sees to it that it is large enough.

        Args:
            positions: The address of `count` positions, int64 each.
            count: How many there are.
            targets: The address to copy to, for each table.
        """
        kernels = native("sampling._gather_kernels")
        if kernels is None:
            return False
        return bool(kernels.gather(positions, count, self._size, self._tables, np.array(targets, np.int64)))
