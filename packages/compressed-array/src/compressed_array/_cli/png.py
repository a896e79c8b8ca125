"""Items as pictures: a strip of them in a PNG file, written by zlib alone."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._cli.failures import UsageError
from compressed_array._runtime.replacing import replacing

COLOURS = 3  # channels; any other number of them is taken for a stack of frames
GAP = 2  # pixels between two pictures
GREY, RGB = 0, 2


def picture(item: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Returns an item as (height, width, channels); of a stack of frames the newest, which is the last."""
    while item.ndim > 3:
        item = item[-1]
    if item.ndim == 3 and item.shape[0] < item.shape[2]:
        item = np.moveaxis(item, 0, 2)
    if item.ndim == 3 and item.shape[2] != COLOURS:
        item = item[..., -1]
    if item.ndim < 2 or item.dtype.kind not in "buif":
        raise UsageError(f"items of {item.ndim} axes and dtype {item.dtype} are no pictures; leave out --frames")
    if item.ndim == 2:
        item = item[..., None]
    if item.dtype == np.uint8:
        return np.ascontiguousarray(item, np.uint8)
    values = np.nan_to_num(item.astype(np.float64))
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    return ((values - low) / max(high - low, 1e-300) * 255).astype(np.uint8)


def write_strip(path: Path, items: list[npt.NDArray[Any]]) -> tuple[int, int]:
    """Writes pictures of items side by side; returns the strip's width and height."""
    pictures = [picture(item) for item in items]
    height, width, channels = pictures[0].shape
    strip = np.full((height, len(pictures) * (width + GAP) - GAP, channels), 255, np.uint8)
    for number, one in enumerate(pictures):
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
    return strip.shape[1], height
