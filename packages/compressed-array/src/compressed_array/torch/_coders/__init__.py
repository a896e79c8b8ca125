"""How frames are kept on a device: which coder a codec stands for there.

`delta` and `rle` are coders of the device itself (`delta`, `runs`); any other codec codes on the host (`host_codec`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from compressed_array._stores.frames.layouts import Layout
from compressed_array._stores.frames.stacks import given_layout
from compressed_array.codecs.delta import Delta, DeltaZstd
from compressed_array.codecs.none import Raw
from compressed_array.codecs.rle import RLE
from compressed_array.errors import UnsupportedOperationError
from compressed_array.registry import get_codec
from compressed_array.torch._coders.base import Coder
from compressed_array.torch._coders.delta import DeltaCoder
from compressed_array.torch._coders.host_codec import HostCodecCoder
from compressed_array.torch._coders.runs import RunLengthCoder
from compressed_array.torch._dtypes import INTEGERS, numpy_dtype_or_none


class DeviceCodec:
    """A codec as it is used on a device.

    Args:
        codec: A name, a codec of this library or of numcodecs; "auto" stands for "delta".
    """

    def __init__(self, codec: Any) -> None:
        self.codec = get_codec("delta" if isinstance(codec, str) and codec == "auto" else codec)
        if isinstance(self.codec, DeltaZstd):
            raise UnsupportedOperationError("delta-zstd packs groups, which a device does not have; use delta or zstd")

    @property
    def is_dense(self) -> bool:
        """Whether items are kept as they are."""
        return isinstance(self.codec, Raw)

    def layout(self, item_shape: tuple[int, ...], itemsize: int) -> Layout | None:
        """Returns how items are stacked, or None if the codec leaves that to be found."""
        return given_layout(item_shape, itemsize, self.codec)

    def coder(self, frame_nbytes: int, dtype: torch.dtype, device: torch.device, heap_bytes: int | None) -> Coder:
        """Returns a new coder for frames of this size. Its heaps may take `heap_bytes` together; None for no limit."""
        itemsize = dtype.itemsize
        if isinstance(self.codec, Delta):
            return DeltaCoder(frame_nbytes, device, heap_bytes)
        if isinstance(self.codec, RLE):
            return RunLengthCoder(frame_nbytes, itemsize if itemsize in INTEGERS else max(INTEGERS), device, heap_bytes)
        on_host = numpy_dtype_or_none(dtype) or np.dtype(f"V{itemsize}")
        return HostCodecCoder(self.codec, frame_nbytes, on_host, device, heap_bytes)
