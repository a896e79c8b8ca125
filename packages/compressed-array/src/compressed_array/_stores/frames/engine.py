"""`Engine`: what writes frames into a store's tables and reads them. One does so by kernels, another by numpy alone."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.types import Words
from compressed_array._stores.frames.kernel_records import Table
from compressed_array._stores.frames.layouts import Geometry
from compressed_array._stores.frames.settings import WriteSettings
from compressed_array._stores.protocol import RecordNumbers, Records

NO_NUMBERS: RecordNumbers = np.empty(0, np.uint32)


class Engine(Protocol):
    """Works on the tables of one store. Writing is the writer's alone; any number of threads read."""

    def write(
        self,
        items: npt.NDArray[Any],
        geometry: Geometry,
        lane_of: Words,
        first: int,
        numbers: RecordNumbers,
        settings: WriteSettings,
    ) -> int:
        """Write items from number `first` on, up to one whose lane needs a new group. Returns how many are done."""

    def read(
        self,
        numbers: RecordNumbers,
        out: Records,
        others: RecordNumbers = NO_NUMBERS,
        other_out: Records | None = None,
        layouts: Table | None = None,
    ) -> None:
        """Fill row i of `out` with item `numbers[i]`, and of `other_out`, if there is one, with item `others[i]`.

        There are as many others, or as many as `numbers` has equal parts. `layouts` says how items are
        divided, if it is not as the store's own table says.
        """

    def retain(self, numbers: RecordNumbers) -> None:
        """Take one more reference for each number."""

    def release(self, numbers: RecordNumbers, first: int) -> int:
        """Give up a reference for each number from `first` on. Returns how many are done.

        Fewer than all are done where the list of dead groups is full.
        """
