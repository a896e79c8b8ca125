"""Where the frames of an item lie: in its own C order, and in the memory of an array that holds it.

An item is a stack of `depth` frames along one of its axes, oldest first; an item that is no stack is one frame. In C
order its bytes are `(outer, depth, inner)`, and those of a frame `(outer, inner)`, whichever axis is the stack's.

Observations mostly arrive as transposed views of channel-last memory. What can be read in place there is any *dense*
item, one whose bytes are a permutation of a block without holes.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from compressed_array._stores.frames.kernel_records import GEOMETRY, StructArray, filled

DEEPEST_STACK = 16
MOST_LAYOUTS = 255  # of one store: a group keeps the number of its layout in a byte
# Runs of a stack that take no more bytes than this are compared by words, with masks.
WIDEST_MASK = 64


class Layout(NamedTuple):
    """How an item divides into frames; `axis` and `width` say the same in terms of its shape."""

    depth: int
    outer: int
    inner: int
    axis: int = 0
    width: int = 0

    @classmethod
    def of(cls, item_shape: tuple[int, ...], itemsize: int, axis: int, width: int) -> Layout:
        """Returns the layout of frames of `width` along `axis`."""
        depth = item_shape[axis] // width
        outer = prod(item_shape[:axis])
        return cls(depth, outer, width * prod(item_shape[axis + 1 :]) * itemsize, axis, width)

    @classmethod
    def unstacked(cls, item_nbytes: int) -> Layout:
        """Returns the layout in which the whole item is one frame."""
        return cls(1, 1, item_nbytes)

    @property
    def frame_nbytes(self) -> int:
        return self.outer * self.inner


class Geometry(NamedTuple):
    """How to find the frames of an item in memory, for one layout and one set of strides.

    In the order of memory an item is `places` times `depth` runs of `run` bytes: that is what is compared. In C order
    a frame is `rows` times `columns` pieces of `piece` bytes, each a fixed step from the last: that is what is taken.
    `masks` are, for each number of new frames from 1, masks for as many words as a place has bytes: they leave out the
    bytes that are new.
    """

    strides: tuple[int, ...]
    frame_nbytes: int
    packed: StructArray
    masks: npt.NDArray[np.int64]
    address: int  # of it, packed


def strides_of(items: npt.NDArray[Any]) -> tuple[int, ...]:
    """Returns the strides of an item, with those along axes of length one, which may be anything, made regular."""
    shape, strides = items.shape[1:], items.strides[1:]
    if 1 not in shape:
        return strides
    changed, after = list(strides), items.itemsize
    for axis in reversed(range(len(shape))):
        if shape[axis] == 1:
            changed[axis] = after
        after = changed[axis] * shape[axis]
    return tuple(changed)


def geometry(layout: Layout, item_shape: tuple[int, ...], itemsize: int, strides: tuple[int, ...]) -> Geometry | None:
    """Returns the geometry of items with these strides, or None where they have to be copied first."""
    axes = [*zip(item_shape, strides, strict=True), (itemsize, 1)]
    stack, rest = (1, 1), axes
    if layout.depth > 1:
        step = strides[layout.axis]
        stack = (layout.depth, layout.width * step)
        rest = [*axes[: layout.axis], (layout.width, step), *axes[layout.axis + 1 :]]
    if not _is_dense([stack, *rest]):
        return None
    pieces = _merged(rest)
    piece = pieces.pop()[0] if pieces and pieces[-1][1] == 1 else 1
    if len(pieces) > 2:
        return None
    (rows, row_stride), (columns, column_stride) = [(1, 0)] * (2 - len(pieces)) + pieces
    nbytes = prod(item_shape) * itemsize
    run = stack[1] if layout.depth > 1 else nbytes
    places = nbytes // (run * layout.depth)
    masks = _masks(layout.depth, run)
    found = filled(
        GEOMETRY,
        item_nbytes=nbytes,
        depth=layout.depth,
        frame_nbytes=layout.frame_nbytes,
        places=places,
        run=run,
        rows=rows,
        row_stride=row_stride,
        columns=columns,
        column_stride=column_stride,
        piece=piece,
        masks=masks.ctypes.data,
    ).view(GEOMETRY)
    return Geometry(strides, layout.frame_nbytes, found, masks, found.ctypes.data)


def is_layout(layout: Layout, item_shape: tuple[int, ...], itemsize: int) -> bool:
    """Whether items of this shape can be divided so."""
    if layout == Layout.unstacked(prod(item_shape) * itemsize):
        return True
    axis, width = layout.axis, layout.width
    if not (0 <= axis < len(item_shape) and 0 < width <= item_shape[axis] and item_shape[axis] % width == 0):
        return False
    return item_shape[axis] <= width * DEEPEST_STACK and layout == Layout.of(item_shape, itemsize, axis, width)


def divided(item: npt.NDArray[Any], layout: Layout) -> npt.NDArray[np.uint8]:
    """Returns the frames of an item in C order, one a row."""
    data = item.reshape(-1).view(np.uint8).reshape(layout.outer, layout.depth, layout.inner)
    return data.swapaxes(0, 1).reshape(layout.depth, layout.frame_nbytes)


def count_new(stack: npt.NDArray[np.uint8], before: npt.NDArray[np.uint8]) -> int:
    """Returns how many frames of a stack are new, where another stack came before it, as `kernels.encode.count_new`."""
    depth = len(stack)
    return next((new for new in range(depth) if np.array_equal(stack[: depth - new], before[new:])), depth)


def _masks(depth: int, run: int) -> npt.NDArray[np.int64]:
    pitch = depth * run
    if pitch > WIDEST_MASK:
        return np.empty(0, np.int64)
    place = np.arange(8 * pitch) % pitch
    kept = [np.where(place < pitch - new * run, 0xFF, 0).astype(np.uint8) for new in range(1, depth)]
    return np.concatenate([np.empty(0, np.int64), *(mask.view(np.int64) for mask in kept)])


def _is_dense(axes: list[tuple[int, int]]) -> bool:
    expected = 1
    for step, length in sorted((step, length) for length, step in axes if length != 1):
        if step != expected:
            return False
        expected *= length
    return True


def _merged(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the axes without those of length one, and with neighbours joined where they lie like one axis."""
    merged: list[tuple[int, int]] = []
    for length, step in axes:
        if length == 1:
            continue
        if merged and merged[-1][1] == length * step:
            merged[-1] = (merged[-1][0] * length, step)
        else:
            merged.append((length, step))
    return merged


def possible_stacks(item_shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Returns every way an item may be a stack: the axis, and the width of a frame along it."""
    return [
        (axis, length // depth)
        for axis, length in enumerate(item_shape)
        for depth in range(2, DEEPEST_STACK + 1)
        if length % depth == 0
    ]


def continues(before: npt.NDArray[Any], after: npt.NDArray[Any], axis: int, width: int) -> bool:
    """Whether `after` is `before` with a frame taken off one end and another put on the other.

    That is a sign of how items are stacked. Items whose frames are alike, or blank but for the newest, would show it of
    any stacking, and are a sign of none.
    """
    older, newer = np.moveaxis(before, axis, 0), np.moveaxis(after, axis, 0)
    shared = newer[:-width]
    if not _same(older[width:], shared):
        return False
    blank = _same(shared, np.broadcast_to(shared.reshape(-1)[:1], (shared.size,)))
    return not blank and not _same(older, newer) and not _same(newer[width:], shared)


def _same(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    # By bytes, since a NaN is no reason to think that frames differ; a few first, which mostly show it.
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if a.dtype.hasobject or a.size == 0:
        return a.size == 0
    x, y = a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)
    return bool((x[::61] == y[::61]).all()) and bool((x == y).all())
