"""What is new in items that follow each other, in memory: for stores that keep the frames themselves elsewhere."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from compressed_array._runtime.numba_tools import Word, copy_bytes, jit
from compressed_array._stores.frames.kernels.items import count_new, move_on, take_frame
from compressed_array._stores.frames.kernels.tables import geometry_at, lane_at
from compressed_array._stores.frames.kernels.write import INTEGER, WORDS

NOTHING = numba.types.void


@jit(INTEGER(INTEGER, INTEGER, INTEGER, WORDS, INTEGER, WORDS))
def count_new_frames(source: Word, stride: Word, geometry_address: Word, lane_of: Any, lanes: Word, new: Any) -> Word:
    """How many frames of each item are new to its lane, or to the item of that lane before it in the batch; and all."""
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
    """Lay frames out in C order, one after the other; they are counted over all items."""
    geometry = geometry_at(geometry_address)
    depth = geometry.depth
    for k in range(frames.shape[0]):
        item, index = source + frames[k] // depth * stride, frames[k] % depth
        take_frame(item, np.int64(index), geometry, target + k * geometry.frame)


@jit(NOTHING(INTEGER, INTEGER, INTEGER, WORDS, INTEGER))
def remember(source: Word, stride: Word, geometry_address: Word, lane_of: Any, lanes: Word) -> None:
    """Let lanes know their last items."""
    record = geometry_at(geometry_address).record
    for i in range(lane_of.shape[0]):
        lane = lane_at(lanes, lane_of[i])
        lane.in_batch, lane.last = source + i * stride, 1
    for i in range(lane_of.shape[0]):  # of many items that went to one lane, the last
        lane = lane_at(lanes, lane_of[i])
        if lane.in_batch != 0:
            copy_bytes(lane.item, lane.in_batch, record)
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
    """All of it in one call: how many frames are new, laid out item by item; if too many, less than 0 and nothing done.

    Items without any are those that their lanes remember. Another thread may change the others meanwhile: what lanes
    remember of them is what is laid out.
    """
    total = count_new_frames(source, stride, geometry_address, lane_of, lanes, new)
    if total > room:
        return -total
    geometry = geometry_at(geometry_address)
    depth, at = geometry.depth, target
    for i in range(lane_of.shape[0]):
        lane = lane_at(lanes, lane_of[i])
        if new[i] > 0:
            move_on(lane.item, source + i * stride, new[i], geometry)
            lane.last = 1
        for index in range(depth - new[i], depth):
            take_frame(lane.item, np.int64(index), geometry, at)
            at += geometry.frame
    return total
