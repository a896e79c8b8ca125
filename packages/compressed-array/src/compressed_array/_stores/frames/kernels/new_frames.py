"""What is new in items that follow each other, in memory: for stores that keep the frames themselves elsewhere."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from compressed_array._runtime.numba_tools import Word, copy_bytes, jit
from compressed_array._stores.frames.kernels.items import count_new, move_on, take_frame
from compressed_array._stores.frames.kernels.write import INTEGER, WORDS
from compressed_array._stores.frames.lanes import IN_BATCH, ITEM, LAST
from compressed_array._stores.frames.layouts import DEPTH, FRAME, RECORD

NOTHING, LANES = numba.types.void, INTEGER[:, ::1]


@jit(INTEGER(INTEGER, INTEGER, WORDS, WORDS, LANES, WORDS))
def count_new_frames(source: Word, stride: Word, geometry: Any, lane_of: Any, lanes: Any, new: Any) -> Word:
    """How many frames of each item are new to its lane, or to the item of that lane before it in the batch; and all."""
    total = np.int64(0)
    for i in range(lane_of.shape[0]):
        lane, item = lanes[lane_of[i]], source + i * stride
        before = lane[IN_BATCH]
        if before == 0 and lane[LAST] != 0:
            before = lane[ITEM]
        new[i] = count_new(item, before, geometry) if before != 0 else geometry[DEPTH]
        lane[IN_BATCH] = item
        total += new[i]
    for i in range(lane_of.shape[0]):
        lanes[lane_of[i], IN_BATCH] = 0
    return total


@jit(NOTHING(INTEGER, INTEGER, WORDS, WORDS, INTEGER))
def take_frames(source: Word, stride: Word, geometry: Any, frames: Any, target: Word) -> None:
    """Lay frames out in C order, one after the other; they are counted over all items."""
    depth = geometry[DEPTH]
    for k in range(frames.shape[0]):
        item, index = source + frames[k] // depth * stride, frames[k] % depth
        take_frame(item, np.int64(index), geometry, target + k * geometry[FRAME])


@jit(NOTHING(INTEGER, INTEGER, WORDS, WORDS, LANES))
def remember(source: Word, stride: Word, geometry: Any, lane_of: Any, lanes: Any) -> None:
    """Let lanes know their last items."""
    for i in range(lane_of.shape[0]):
        lane = lanes[lane_of[i]]
        lane[IN_BATCH], lane[LAST] = source + i * stride, 1
    for i in range(lane_of.shape[0]):  # of many items that went to one lane, the last
        lane = lanes[lane_of[i]]
        if lane[IN_BATCH] != 0:
            copy_bytes(lane[ITEM], lane[IN_BATCH], geometry[RECORD])
            lane[IN_BATCH] = 0


@jit(INTEGER(INTEGER, INTEGER, WORDS, WORDS, LANES, WORDS, INTEGER, INTEGER))
def take_new_frames(
    source: Word, stride: Word, geometry: Any, lane_of: Any, lanes: Any, new: Any, target: Word, room: Word
) -> Word:
    """All of it in one call: how many frames are new, laid out item by item; if too many, less than 0 and nothing done.

    Items without any are those that their lanes remember. Another thread may change the others meanwhile: what lanes
    remember of them is what is laid out.
    """
    total = count_new_frames(source, stride, geometry, lane_of, lanes, new)
    if total > room:
        return -total
    depth, at = geometry[DEPTH], target
    for i in range(lane_of.shape[0]):
        lane = lanes[lane_of[i]]
        if new[i] > 0:
            move_on(lane[ITEM], source + i * stride, new[i], geometry)
            lane[LAST] = 1
        for index in range(depth - new[i], depth):
            take_frame(lane[ITEM], np.int64(index), geometry, at)
            at += geometry[FRAME]
    return total
