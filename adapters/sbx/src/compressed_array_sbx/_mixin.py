"""`ForSbx`: the SB3 adapter's buffers for algorithms that call `numpy()` on every tensor they sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from compressed_array_sb3._mixin import CompressedBuffer
from compressed_array_sb3._reads import SampleScope, current
from compressed_array_sbx._reads import JaxSampleScope


class ForSbx(CompressedBuffer):
    """What all buffers have in common. It comes before one of the SB3 adapter's in a list of bases."""

    def to_torch(self, array: Any, copy: bool = True) -> torch.Tensor:
        reads = current()
        taken = reads.take_over(array) if reads is not None and isinstance(array, np.ndarray) else None
        return super().to_torch(array, copy) if taken is None else taken

    def _reads(self) -> SampleScope | None:
        return JaxSampleScope(self._pairs(), self.device, self.__dict__.values())
