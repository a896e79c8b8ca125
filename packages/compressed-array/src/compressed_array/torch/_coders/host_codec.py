"""`HostCodecCoder`: any codec of the host, for frames on a device, with one round trip for a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from compressed_array._runtime.payloads import Payloads
from compressed_array.codecs._batches import decode_records, encode_records
from compressed_array.torch._coders.base import BLANK, Batch, Coded, FrameHeap, StagesNothing, starts_of
from compressed_array.torch._frame_table import LENGTH, START, FrameTable
from compressed_array.torch._heap import TorchHeap
from compressed_array.torch._sync import fetch, to_host


class HostCodecCoder(StagesNothing):
    """Keeps the codec's own payloads in a heap of bytes. A frame that does not shrink is kept as it is."""

    def __init__(
        self, codec: Any, frame_nbytes: int, dtype: np.dtype[Any], device: torch.device, heap_bytes: int | None
    ) -> None:
        self._codec, self.frame_nbytes, self._dtype, self.device = codec, frame_nbytes, dtype, device
        self.payloads = TorchHeap([(torch.uint8, ())], device, heap_bytes)

    def encode(self, batch: Batch) -> Coded:
        records = to_host(batch.frames)
        coded = encode_records(self._codec, records, self._dtype)
        shrinks = coded.size < self.frame_nbytes
        length = np.where(records.any(1), np.where(shrinks, coded.size, self.frame_nbytes), 0)
        data = np.empty(int(length.sum()), np.uint8)
        at = np.cumsum(length) - length
        kept = np.flatnonzero(shrinks & (length > 0))
        coded.select(kept).copy_to(data, at[kept])
        plain = np.flatnonzero(~shrinks & (length > 0))
        raw = Payloads.in_one_buffer(records.reshape(-1), plain * self.frame_nbytes, length[plain])
        raw.copy_to(data, at[plain])
        first = self.payloads.append([torch.from_numpy(data)]) if len(data) else 0
        blank, lanes = np.full(len(length), BLANK), np.zeros(batch.lanes, np.int64)
        return Coded(blank, blank, starts_of(first, length), length, blank, lanes, lanes)

    def decode(self, table: FrameTable, frames: torch.Tensor) -> torch.Tensor:
        words = table.words.index_select(0, frames)
        records = self.payloads.gathering(words[:, START], words[:, LENGTH])
        order = torch.arange(len(frames), device=self.device) if records.order is None else records.order
        rows, order_of, length = fetch(records.rows, order, records.length)
        _, (data,) = self.payloads.gather(records, rows)
        size = np.array(length, np.int64)
        at = np.cumsum(size) - size
        out = np.zeros((len(frames), self.frame_nbytes), np.uint8)
        sent = Payloads.in_one_buffer(to_host(data), at, size)
        where = np.array(order_of, np.int64)
        coded = np.flatnonzero((size > 0) & (size < self.frame_nbytes))
        if len(coded):
            decoded = np.empty((len(coded), self.frame_nbytes), np.uint8)
            decode_records(self._codec, sent.select(coded), decoded, self._dtype)
            out[where[coded]] = decoded
        plain = np.flatnonzero((size > 0) & (size == self.frame_nbytes))
        if len(plain):
            sent.select(plain).copy_to(out.reshape(-1), where[plain] * self.frame_nbytes)
        return torch.from_numpy(out).to(self.device, non_blocking=True)

    def heaps(self) -> list[FrameHeap]:
        return [FrameHeap(self.payloads, START, LENGTH)]
