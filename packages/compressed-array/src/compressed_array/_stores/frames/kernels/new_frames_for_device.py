"""Finds, on the host, the new frames of items from there, which are to be sent to a torch device.

What makes a frame new is decided in `kernels.encode.count_new`, as for frames that are kept in RAM.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from compressed_array._runtime.numba_tools import Word, copy_bytes, jit
from compressed_array._stores.frames.kernels.encode import count_new, take_frame, update_last_item
from compressed_array._stores.frames.kernels.tables import INTEGER, WORDS, geometry_at, lane_at

NOTHING = numba.types.void


@jit(INTEGER(INTEGER, INTEGER, INTEGER, WORDS, INTEGER, WORDS))
def count_new_frames(source: Word, stride: Word, geometry_address: Word, lane_of: Any, lanes: Word, new: Any) -> Word:
    """Counts the new frames of each item into `new`. Returns how many there are in all.

    A frame is new if the item before it did not have it: the one of that lane before it in the batch, else the lane's
    last item.
    """
    total, geometry = np.int64(0), geometry_at(geometry_address)
    for i in range(lane_of.shape[0]):
        lane, item = lane_at(lanes, lane_of[i]), source + i * stride
        before = lane.in_batch
        if before == 0 and lane.last != 0:
            before = lane.item
        new[i] = count_new(item, before, geometry) if before != 0 else geometry.depth
        lane.in_batch = item
        total += new[i]
    for i in range(lane_of.shape[0]):
        lane_at(lanes, lane_of[i]).in_batch = 0
    return total


@jit(NOTHING(INTEGER, INTEGER, INTEGER, WORDS, INTEGER))
def take_frames(source: Word, stride: Word, geometry_address: Word, frames: Any, target: Word) -> None:
    """Copies frames to `target` in C order, one after the other. `frames` are their places among those of all items."""
    geometry = geometry_at(geometry_address)
    depth = geometry.depth
    for k in range(frames.shape[0]):
        item, index = source + frames[k] // depth * stride, frames[k] % depth
        take_frame(item, np.int64(index), geometry, target + k * geometry.frame_nbytes)


@jit(NOTHING(INTEGER, INTEGER, INTEGER, WORDS, INTEGER))
def remember(source: Word, stride: Word, geometry_address: Word, lane_of: Any, lanes: Word) -> None:
    """Copies the last item of each lane in the batch to where the lane remembers it."""
    item_nbytes = geometry_at(geometry_address).item_nbytes
    for i in range(lane_of.shape[0]):
        lane = lane_at(lanes, lane_of[i])
        lane.in_batch, lane.last = source + i * stride, 1
    for i in range(lane_of.shape[0]):  # of many items that went to one lane, the last
        lane = lane_at(lanes, lane_of[i])
        if lane.in_batch != 0:
            copy_bytes(lane.item, lane.in_batch, item_nbytes)
            lane.in_batch = 0


@jit(INTEGER(INTEGER, INTEGER, INTEGER, WORDS, INTEGER, WORDS, INTEGER, INTEGER))
def take_new_frames(
    source: Word,
    stride: Word,
    geometry_address: Word,
    lane_of: Any,
    lanes: Word,
    new: Any,
    target: Word,
    room: Word,
) -> Word:
    """Counts, copies and remembers new frames in one call. Returns how many there are.

    Returns a negative count, having changed nothing, if they do not fit. Another thread may change the items meanwhile:
    frames are copied from what lanes remember of them.
    """
    total = count_new_frames(source, stride, geometry_address, lane_of, lanes, new)
    if total > room:
        return -total
    geometry = geometry_at(geometry_address)
    depth, at = geometry.depth, target
    for i in range(lane_of.shape[0]):
        lane = lane_at(lanes, lane_of[i])
        if new[i] > 0:
            update_last_item(lane.item, source + i * stride, new[i], geometry)
            lane.last = 1
        for index in range(depth - new[i], depth):
            take_frame(lane.item, np.int64(index), geometry, at)
            at += geometry.frame_nbytes
    return total
