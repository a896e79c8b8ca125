"""Items as pictures: a strip of them in a PNG file, written by zlib alone."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from compressed_array._cli.failures import UsageError
from compressed_array._runtime.replacing import replacing

COLOURS = 3  # channels; any other number of them is taken for a stack of frames
WITH_ALPHA = (2, 4)  # channels of which the last may say how opaque the others are
OPAQUE = {"f": (1,), "i": (255, 65535), "u": (255, 65535)}  # what it then is everywhere, by the kind of dtype
GAP = 2  # pixels between two pictures
ALL_CHANNELS = "all channels"
GREY, RGB = 0, 2


class Strip(NamedTuple):
    """What was drawn: its size, and which channels of the items it shows."""

    width: int
    height: int
    shown: str


def pictures(items: npt.NDArray[Any]) -> tuple[npt.NDArray[np.uint8], str]:
    """Returns items as (number, height, width, channels), and which channels these are; of stacked frames the newest.

    That is the last. A last channel that is opaque everywhere is left out; any other cannot be told from a frame.
    """
    if items.ndim < 3 or not items.size or items.dtype.kind not in "buif":
        raise UsageError(
            f"items of shape {items.shape[1:]} and dtype {items.dtype} are no pictures, which are numbers in two axes "
            "or more; leave out --frames"
        )
    while items.ndim > 4:
        items = items[:, -1]
    if items.ndim == 3:
        items = items[..., None]
    elif items.shape[1] < items.shape[3]:
        items = np.moveaxis(items, 1, 3)
    count, shown = items.shape[3], ALL_CHANNELS
    if count in WITH_ALPHA and items[..., -1].min() == items[..., -1].max() in OPAQUE.get(items.dtype.kind, ()):
        items, shown = items[..., :-1], "all channels but alpha"
    if items.shape[3] not in (1, COLOURS):
        items, shown = items[..., -1:], f"the last of {count} channels"
    return _in_bytes(items), shown


def _in_bytes(items: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Returns numbers as brightnesses: bytes as they are, all others from the least of them, or zero, to the greatest.

    They are the same for all pictures, so that these can be compared.
    """
    if items.dtype == np.uint8:
        return np.asarray(items, np.uint8)
    values = items.astype(np.float64)
    finite = values[np.isfinite(values)]
    low, high = finite.min(initial=0), finite.max(initial=0)
    if low == high:
        high = low + 1
    # Halves, since the difference of two numbers may be greater than any; what is no number is black.
    brightness = np.interp(values / 2, (low / 2, high / 2), (0, 255))
    return np.nan_to_num(brightness).round().astype(np.uint8)


def write_strip(path: Path, items: list[npt.NDArray[Any]]) -> Strip:
    """Writes pictures of items side by side."""
    drawn, shown = pictures(np.stack(items))
    count, height, width, channels = drawn.shape
    strip = np.full((height, count * (width + GAP) - GAP, channels), 255, np.uint8)
    for number, one in enumerate(drawn):
        left = number * (width + GAP)
        strip[:, left : left + width] = one
    colour = RGB if channels == COLOURS else GREY
    rows = np.zeros((height, 1 + strip.shape[1] * channels), np.uint8)  # each begins with its filter, which is none
    rows[:, 1:] = strip.reshape(height, -1)
    header = struct.pack(">IIBBBBB", strip.shape[1], height, 8, colour, 0, 0, 0)
    with replacing(path) as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, body in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")):
            file.write(struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)))
    return Strip(strip.shape[1], height, shown)
