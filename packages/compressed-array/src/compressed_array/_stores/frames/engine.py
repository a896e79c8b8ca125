"""`Engine`: what writes frames into a store's tables and reads them. One does so by kernels, another by numpy alone."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.types import Words
from compressed_array._stores.frames.kernel_records import StructArray
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
        """Writes items from number `first` on, up to one for which there is no room. Returns how many are done."""

    def read(
        self,
        numbers: RecordNumbers,
        out: Records,
        others: RecordNumbers = NO_NUMBERS,
        other_out: Records | None = None,
        layouts: StructArray | None = None,
    ) -> None:
        """Fills row i of `out` with item `numbers[i]`, and of `other_out`, if there is one, with item `others[i]`.

        There are as many others, or one for each of so many equal parts of `numbers`. `layouts` says how items are
        divided, if it is not as the store's own table says.
        """

    def retain(self, numbers: RecordNumbers) -> None:
        """Counts one more use, for each number, of the groups that its item needs."""

    def release(self, numbers: RecordNumbers, first: int) -> int:
        """Counts one use less, for each number from `first` on, of these groups. Returns how many are done.

        Fewer than all are done where the list of dead groups is full.
        """
