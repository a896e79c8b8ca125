"""A store on a device outside of its process: checksums, and checks of what comes back.

What lanes remember is left out: the first items written after loading are stored as if a stream had just begun.
Everything is checked on the host, before any of it is used: a device does not survive an index that is out of range.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import torch

from compressed_array._stores.frames.layouts import Layout, is_layout
from compressed_array._stores.protocol import MOST_LANES
from compressed_array.errors import CorruptPayloadError
from compressed_array.torch._coders.base import Coder
from compressed_array.torch._coders.runs import RowCoder
from compressed_array.torch._frame_table import COLUMNS, LINKS, ROW, ROW_OF, FrameTable
from compressed_array.torch._heap import ROW_BITS, ROW_MASK, TorchHeap
from compressed_array.torch._sync import on_host

HOST = torch.device("cpu")
CHECKSUM = "crc32"


def with_checksum(state: dict[str, Any]) -> dict[str, Any]:
    """Returns a state with its checksum in it."""
    return state | {CHECKSUM: checksum(state)}


def verify_checksum(state: dict[str, Any]) -> None:
    """Raises if a state was changed since it got its checksum. States of earlier versions have none."""
    if CHECKSUM in state and state[CHECKSUM] != checksum({k: v for k, v in state.items() if k != CHECKSUM}):
        raise CorruptPayloadError("the state was changed since it was taken: its checksum is another")


def checksum(state: Any, crc: int = 0) -> int:
    """Returns the CRC-32 of all that is in a state, which is tensors, numbers and names, in dicts and lists."""
    if isinstance(state, torch.Tensor):
        data = on_host(_solid(state).detach()).reshape(-1).view(torch.uint8).numpy()
        return zlib.crc32(data.data, zlib.crc32(f"{state.dtype} {tuple(state.shape)}".encode(), crc))
    if isinstance(state, dict):
        crc = zlib.crc32(b"{", crc)
        for name in sorted(state):
            crc = checksum(state[name], zlib.crc32(repr(name).encode(), crc))
        return zlib.crc32(b"}", crc)
    if isinstance(state, list):
        crc = zlib.crc32(b"[", crc)
        for part in state:
            crc = checksum(part, crc)
        return zlib.crc32(b"]", crc)
    if state is not None and type(state) not in (bool, int, str):
        raise CorruptPayloadError(f"a state has no {type(state).__name__} in it")
    return zlib.crc32(f"{type(state).__name__} {state!r},".encode(), crc)


def checked_tensor(part: Any, dtype: torch.dtype, shape: Sequence[int | None]) -> torch.Tensor:
    """Returns a part of a state on the host; raises if it is no tensor of this dtype and shape.

    Args:
        shape: The length of each axis, None for any.
    """
    if not isinstance(part, torch.Tensor) or part.dtype != dtype or part.dim() != len(shape):
        raise CorruptPayloadError(f"there is no tensor of {dtype} with {len(shape)} axes where one belongs")
    if any(want is not None and have != want for have, want in zip(part.shape, shape, strict=True)):
        raise CorruptPayloadError(f"a tensor has the shape {tuple(part.shape)} where {tuple(shape)} belongs")
    return on_host(_solid(part))


def _solid(part: torch.Tensor) -> torch.Tensor:
    # One that repeats its elements takes any amount of memory as soon as it is copied.
    if part.layout != torch.strided or not part.is_contiguous() or part.is_meta or part.is_quantized:
        raise CorruptPayloadError("a tensor is not one that lies in memory as a whole")
    return part


def check_items(state: Any, item_nbytes: int, numbers: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the items and lanes of a state in which it is not known yet how items are stacked; raises if it is none.

    Args:
        numbers: The numbers of all cells, which have to be of items that there are.
    """
    items = checked_tensor(state["items"], torch.uint8, (None, item_nbytes))
    lanes = checked_tensor(state["lanes"], torch.int64, (len(items),))
    _check(len(items) > 0 and not items[0].any(), "the blank item is not blank")
    _check(_within(lanes, MOST_LANES), "an item is of a lane that there is not")
    for part in numbers:
        _check(_within(part, len(items)), "a cell has an item that there is not")
    return items, lanes


def layout_of(state: dict[str, Any], item_shape: tuple[int, ...], itemsize: int) -> Layout:
    """Returns how the items of a state are divided; raises if items of this shape cannot be."""
    words = state["layout"]
    if not isinstance(words, list) or [type(n) for n in words] != [int] * len(Layout._fields):
        raise CorruptPayloadError("a layout is five numbers")
    layout = Layout(*words)
    _check(layout.frame_nbytes > 0 and is_layout(layout, item_shape, itemsize), "items cannot be divided so")
    return layout


def check_frames(state: dict[str, Any], depth: int, coder: Coder, numbers: Sequence[torch.Tensor]) -> None:
    """Raises for frames that could make a reader, or a later write, look or write where it must not."""
    words = checked_tensor(state["table"]["words"], torch.int64, (None, COLUMNS))
    free = checked_tensor(state["table"]["free"], torch.int64, (None,))
    count = len(words)
    _check(count > 0 and not words[0, :ROW].any(), "the blank frame is not blank")
    _check(_within(words[:, LINKS], count), "a frame builds on one that there is not")
    for part in numbers:
        _check(_within(part, count), "a cell has a frame that there is not")
    table = FrameTable(HOST)
    table.restore({"words": words, "free": free})
    needed = table.mark_needed(numbers, depth)
    _check(_within(free, count) and len(set(free.tolist())) == len(free), "what is free is not a list of frames")
    _check(not needed[free].any(), "a frame that is needed is free")
    heaps, held = coder.heaps(), state["heaps"]
    _check(isinstance(held, list) and len(held) == len(heaps), "there are other heaps than these")
    rows = words[needed]
    for (heap, address, length), segments in zip(heaps, held, strict=True):
        used = _used_rows(heap, segments)
        if length is None:  # of each the row that it begins with, which is a frame's own
            owners = rows[:, ROW_OF]
            _check((words[owners, ROW_OF] == owners).all(), "a frame begins with the row of one that has none")
            _check_places(words[owners, address], torch.ones_like(owners), used, 1)
        else:
            _check_places(rows[:, address], rows[:, length], used, _most_rows(coder))
    if isinstance(coder, RowCoder):
        _check_sparse(coder, held[0], held[1], int(words[0, ROW]))


def _check_sparse(coder: RowCoder, rows: list[Any], patches: list[Any], blank: int) -> None:
    _check(not rows[blank >> ROW_BITS][0][blank & ROW_MASK].any(), "the blank row is not blank")
    for segment in patches:
        _check(segment is None or _within(segment[0], coder.width), "a patch lies beside its row")


def _most_rows(coder: Coder) -> int:
    """Returns how many rows of a heap a frame may have: patches, or bytes."""
    return coder.width if isinstance(coder, RowCoder) else coder.frame_nbytes


def _used_rows(heap: TorchHeap, segments: Any) -> torch.Tensor:
    """Returns how many rows each segment has; raises if they are not of this heap's columns."""
    _check(isinstance(segments, list), "a heap is a list of segments")
    used = [0] * max(len(segments), 1)
    for number, columns in enumerate(segments):
        if columns is None:
            continue
        _check(isinstance(columns, list) and len(columns) == len(heap.columns), "a segment has other columns")
        lengths = {
            len(checked_tensor(part, dtype, (None, *shape)))
            for part, (dtype, shape) in zip(columns, heap.columns, strict=True)
        }
        _check(len(lengths) == 1, "the columns of a segment are of different lengths")
        used[number] = lengths.pop()
    return torch.tensor(used)


def _check_places(start: torch.Tensor, length: torch.Tensor, used: torch.Tensor, most: int) -> None:
    segment = start >> ROW_BITS
    _check(_within(segment, len(used)) and _within(length, most + 1), "a frame is in a segment that there is not")
    is_inside = (length == 0) | ((start & ROW_MASK) + length <= used[segment])
    _check(is_inside.all(), "a frame is longer than its segment")


def _within(numbers: torch.Tensor, count: int) -> bool:
    return not numbers.numel() or bool(numbers.min() >= 0 and numbers.max() < count)


def _check(sound: Any, what: str) -> None:
    if not sound:
        raise CorruptPayloadError(f"the state contradicts itself: {what}")
