"""`DeviceCells`: which item of a store each cell of an array on a device holds."""

from __future__ import annotations

import numpy as np
import torch

from compressed_array.torch._sync import on_device


class DeviceCells:
    """The numbers of an array's items, one for each cell, and the rows that wait for theirs."""

    def __init__(self, numbers: torch.Tensor) -> None:
        self.numbers = numbers
        self.pending: dict[int, int] = {}  # rows of cells, each with the pending step that it holds

    def __getstate__(self) -> None:
        """Returns nothing: the store has the numbers in its own state, with the frames that they stand for."""

    def replace(self, numbers: torch.Tensor) -> None:
        """Lets the cells hold other items, given by number."""
        self.numbers, self.pending = numbers, {}

    def fill(self, steps: torch.Tensor) -> None:
        """Gives the rows that wait their numbers.

        Args:
            steps: The numbers of the items of all pending steps, which are stored now.
        """
        if self.pending:
            at = on_device(np.array([[*self.pending], [*self.pending.values()]]), steps.device)
            self.numbers.index_copy_(0, at[0], steps.index_select(0, at[1]).to(self.numbers.dtype))
            self.pending = {}
