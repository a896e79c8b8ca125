"""`Payloads`: a batch of payloads by reference, wherever their bytes lie, so that a batch crosses a layer in one call.

A heap makes one from addresses, a codec's encoder makes one over its scratch memory. Nobody copies to make one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native

# One native call copies many payloads; with fewer, a loop is done before its arguments are laid out.
NATIVE_FROM = 16


@dataclass(frozen=True)
class Payloads:
    """Payload i is `size[i]` bytes at `offset[i]` of `segments[segment[i]]`.

    Holding one keeps the segments' memory alive, which makes `addresses` safe to hand to native code meanwhile.
    """

    segments: Sequence[npt.NDArray[np.uint8]]
    segment: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    # Where each segment lies; a heap of thousands of segments keeps this at hand, others leave it to `addresses`.
    bases: npt.NDArray[np.int64] | None = None

    @classmethod
    def in_one_buffer(cls, data: npt.NDArray[np.uint8], offset: npt.ArrayLike, size: npt.ArrayLike) -> Payloads:
        """Returns payloads that lie in one flat uint8 buffer."""
        offset = np.asarray(offset, np.int64)
        return cls([data], np.zeros(len(offset), np.int64), offset, np.asarray(size, np.int64))

    @classmethod
    def from_parts(cls, parts: Sequence[npt.NDArray[np.uint8]]) -> Payloads:
        """Returns one payload per flat uint8 array."""
        n = len(parts)
        size = np.fromiter((p.size for p in parts), np.int64, n)
        return cls(parts, np.arange(n), np.zeros(n, np.int64), size)

    @classmethod
    def all_raw(cls, count: int, nbytes: int) -> Payloads:
        """Returns the result of an encoder that made no record smaller: the sizes of the records, and no bytes."""
        zeros = np.zeros(count, np.int64)
        return cls([np.empty(0, np.uint8)], zeros, zeros, np.full(count, nbytes))

    def __len__(self) -> int:
        return len(self.size)

    def __getitem__(self, i: int) -> npt.NDArray[np.uint8]:
        start, segment = int(self.offset[i]), int(self.segment[i])
        return self.segments[segment][start : start + int(self.size[i])]

    def select(self, which: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Payloads:
        """Returns the payloads that `which` picks, in that order."""
        return Payloads(self.segments, self.segment[which], self.offset[which], self.size[which], self.bases)

    def copy_to(self, target: npt.NDArray[np.uint8], offset: npt.NDArray[np.int64]) -> None:
        """Copies payload i to `target[offset[i]:]`, where the caller has made sure that there is room."""
        kernels = native("_runtime.numba_tools") if len(self) >= NATIVE_FROM else None
        if kernels is not None:
            kernels.pack(self.addresses(), self.size, target, offset)
            return
        for i, start in enumerate(offset.tolist()):
            payload = self[i]
            target[start : start + payload.size] = payload

    def addresses(self) -> npt.NDArray[np.int64]:
        """Returns the address of each payload, for kernels that read many segments in one call."""
        bases = self.bases
        if bases is None:
            bases = np.fromiter((s.ctypes.data for s in self.segments), np.int64, len(self.segments))
        return bases[self.segment] + self.offset
