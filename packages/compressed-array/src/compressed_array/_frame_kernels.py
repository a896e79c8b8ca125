"""Writing items into lanes' open groups, in memory: every item compared, every new frame coded, in one call a batch.

What groups, kinds of record, lanes and a geometry's words are is said in `_groups`, `_lanes` and `_layouts`.
`_frame_twin` does the same with numpy alone and makes the same bytes.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from compressed_array._change_kernels import copy_short, encode_changes, first_difference, put_varint
from compressed_array._groups import (
    DEAD,
    FREE,
    FROM_REFERENCE,
    FULL,
    KIND_BITS,
    LISTED,
    MANY,
    PLAIN,
    RAW,
    RECORDS,
    SINCE_LAST,
    SLOTS,
    TAG_BITS,
    ZSTD,
)
from compressed_array._heap import OFFSET_BITS
from compressed_array._lanes import (
    BUFFER,
    CAPACITY,
    COUNT,
    DELTA,
    ENOUGH,
    FRAME_AT,
    GROUP_OF,
    IN_BATCH,
    INTRA,
    ITEM,
    LAST,
    MODE,
    ROOM,
    SEGMENT,
    SIZE,
    USED,
)
from compressed_array._lanes import ROWS as ROWS_MODE
from compressed_array._layouts import (
    COLUMN_STEP,
    COLUMNS,
    DEPTH,
    FRAME,
    MASKS,
    PIECE,
    PLACES,
    RECORD,
    ROW_STEP,
    ROWS,
    RUN,
    WIDEST_MASK,
)
from compressed_array._native import (
    Word,
    bytes_at,
    call_sizes,
    copy_bytes,
    difference,
    fetch_add,
    helper,
    jit,
    load8,
    load64,
    store8,
    words_at,
)
from compressed_array._table_kernels import groups_of, lane_at, layout_of, lists_of
from compressed_array._tables import LANES, LIST_LENGTHS, LIVE_BYTES, REFERENCES, USED_BYTES

INTEGER = numba.types.int64
WORDS, NUMBERS = INTEGER[::1], numba.types.uint32[::1]


@helper
def is_shifted(item: Word, before: Word, frames: Word, geometry: Any) -> Word:
    """Whether an item is the one before without its first frames, and with as many new ones behind."""
    record, places, shift = geometry[RECORD], geometry[PLACES], frames * geometry[RUN]
    pitch = geometry[DEPTH] * geometry[RUN]
    if pitch > WIDEST_MASK:
        same = pitch - shift
        for p in range(places):
            if first_difference(item + p * pitch, before + p * pitch + shift, np.int64(0), same) < same:
                return False
        return True
    # Short runs side by side, as in channel-last memory: many at a time, but for the bytes that may be new.
    masks = MASKS + (frames - 1) * pitch
    at, k = np.int64(0), np.int64(0)
    if 8 % pitch == 0:
        while at + 128 + shift <= record:
            if difference(item + at, before + at + shift) & np.uint64(geometry[masks]) != 0:
                return False
            at += 128
    while at + 8 + shift <= record:
        if (load64(item + at) ^ load64(before + at + shift)) & np.uint64(geometry[masks + k]) != 0:
            return False
        at, k = at + 8, k + 1 if k + 1 < pitch else np.int64(0)
    while at + shift < record:
        if at % pitch < pitch - shift and load8(item + at) != load8(before + at + shift):
            return False
        at += 1
    return True


@helper
def count_new(item: Word, before: Word, geometry: Any) -> Word:
    """How many frames of an item are new to one that comes after another: none, some at its end, or all."""
    record, depth = geometry[RECORD], geometry[DEPTH]
    if first_difference(item, before, np.int64(0), record) >= record:
        return np.int64(0)
    for frames in range(1, depth):
        if is_shifted(item, before, np.int64(frames), geometry):
            return np.int64(frames)
    return np.int64(depth)


@helper
def take_frame(item: Word, index: Word, geometry: Any, target: Word) -> None:
    """Lay a frame of an item out in C order."""
    start, piece = item + index * geometry[RUN], geometry[PIECE]
    columns, step = geometry[COLUMNS], geometry[COLUMN_STEP]
    for row in range(geometry[ROWS]):
        source, out = start + row * geometry[ROW_STEP], target + row * columns * piece
        if piece > 1:
            for column in range(columns):
                copy_short(out + column * piece, source + column * step, piece)
        elif (
            step == 4
        ):  # a stack of four, the usual one: by arrays and a constant step, which makes it eight times as fast
            pixels, frame = bytes_at(source, 4 * columns - 3), bytes_at(out, columns)
            for column in range(columns):
                frame[column] = pixels[4 * column]
        else:
            pixels, frame = bytes_at(source, step * (columns - 1) + 1), bytes_at(out, columns)
            for column in range(columns):
                frame[column] = pixels[step * column]


@helper
def encode_frame(
    frame: Word,
    last: Word,
    size: Word,
    mode: Word,
    scratch: Word,
    references: Any,
    reference: Word,
    worth: Word,
    compress: Word,
    context: Word,
    level: Word,
    out: Word,
) -> Word:
    """Write the smallest record for a frame to `out` and return its size; `last` is 0 where no frame came before.

    Of more than `worth` bytes, zstd may make fewer.
    """
    kind, best, body, spare = np.int64(RAW), size, frame, scratch
    other = scratch + size + (size >> 8) + ROOM
    if mode == DELTA:
        if last != 0:
            found = encode_changes(frame, last, size, spare, best - 1)
            if found >= 0:
                kind, best, body, spare, other = np.int64(SINCE_LAST), found, spare, other, spare
        base = reference
        while best * ENOUGH > size:
            found = encode_changes(frame, references[base], size, spare + 1, best - 2)
            if found >= 0:
                store8(spare, np.uint64(base))
                kind, best, body, spare, other = np.int64(FROM_REFERENCE), found + 1, spare, other, spare
            if base == 0:
                break
            base = np.int64(0)
    if compress != 0 and best > 1 and (mode == INTRA or best > worth):
        # All the room that zstd may ask for: with less, it makes other bytes of what hardly shrinks.
        found = call_sizes(compress, context, spare, size + (size >> 8) + ROOM, frame, size, level)
        if 0 < found < best:
            kind, best, body = np.int64(ZSTD), found, spare
    at = put_varint(out, best << KIND_BITS | kind)
    copy_bytes(at, body, best)
    return at + best - out


@helper
def drop_reference(group: Word, groups: Any, dead: Any, counts: Any) -> None:
    """Give up a reference to a group, and list the group if that was the last."""
    groups[group].references -= np.uint32(1)
    if groups[group].references == 0:
        dead[counts[DEAD]] = group
        counts[DEAD] += 1


@helper
def open_group(lane: Any, mode: Word, capacity: Word, layout: Word, groups: Any, lists: Any) -> None:
    """Give a lane a new group behind the bytes it has written. A lane holds its group and the one before."""
    free, dead, full, counts = lists
    last = lane[GROUP_OF]
    counts[FREE] -= 1
    group = free[counts[FREE]]
    if last != 0:
        if groups[last - 1].before != 0:
            drop_reference(np.int64(groups[last - 1].before) - 1, groups, dead, counts)
        full[counts[FULL]] = last - 1
        counts[FULL] += 1
    tag = np.int64(PLAIN if mode == ROWS_MODE else RECORDS)
    groups[group].where = tag << TAG_BITS | lane[SEGMENT] << OFFSET_BITS | lane[USED]
    groups[group].size = np.uint32(0)
    groups[group].before = np.uint32(last)
    groups[group].references = np.uint32(1)
    groups[group].layout = np.uint8(layout)
    lane[GROUP_OF], lane[COUNT], lane[CAPACITY], lane[MODE] = group + 1, 0, capacity, mode


@helper
def keep_last(lane_of: Any, first: Word, end: Word, lanes: Word, record: Word) -> None:
    """Copy what lanes have to remember out of the batch: of many items that went to one lane, the last."""
    for i in range(first, end):
        lane = lane_at(lanes, lane_of[i])
        if lane[IN_BATCH] != 0:
            copy_bytes(lane[ITEM], lane[IN_BATCH], record)
            lane[IN_BATCH] = 0


@helper
def write_batch(
    source: Word,
    stride: Word,
    geometry: Any,
    lane_of: Any,
    tables: Any,
    how: Any,
    first: Word,
    numbers: Any,
) -> Word:
    """`write_items`."""
    reference, worth, mode, capacity, layout, compress, context, level, scratch = how
    record, depth, size = geometry[RECORD], geometry[DEPTH], geometry[FRAME]
    fresh = scratch + 2 * (size + (size >> 8) + ROOM)
    groups, lists = groups_of(tables), lists_of(tables)
    counts, used, live = lists[3], tables[USED_BYTES], tables[LIVE_BYTES]
    references = words_at(tables[REFERENCES], reference + 1)
    for i in range(first, lane_of.shape[0]):
        lane, item = lane_at(tables[LANES], lane_of[i]), source + i * stride
        new = depth
        if lane[LAST] != 0:
            new = count_new(item, lane[IN_BATCH] if lane[IN_BATCH] != 0 else lane[ITEM], geometry)
        if new > 0:
            if lane[GROUP_OF] == 0 or lane[COUNT] + new > lane[CAPACITY]:
                if lane[COUNT] + new < depth:
                    new = depth  # a failed write may leave a group behind that is too short to reach back into
                lists_ready = counts[FREE] > 0 and counts[DEAD] < LISTED and counts[FULL] < LISTED
                if not lists_ready or lane[SIZE] - lane[USED] < capacity * (size + ROOM):
                    keep_last(lane_of, first, i, tables[LANES], record)
                    return i
                open_group(lane, mode, capacity, layout, groups, lists)
            begin, written_as = lane[USED], lane[MODE]
            for index in range(depth - new, depth):
                out = lane[BUFFER] + lane[USED]
                if written_as == ROWS_MODE:
                    take_frame(item, np.int64(index), geometry, out)
                    lane[USED] += size
                else:
                    take_frame(item, np.int64(index), geometry, fresh)
                    last = lane[FRAME_AT] if lane[COUNT] > 0 else np.int64(0)
                    lane[USED] += encode_frame(
                        fresh,
                        last,
                        size,
                        written_as,
                        scratch,
                        references,
                        reference,
                        worth,
                        compress,
                        context,
                        level,
                        out,
                    )
                    copy_bytes(lane[FRAME_AT], fresh, size)
                lane[COUNT] += 1
            lane[IN_BATCH] = item
            group = lane[GROUP_OF] - 1
            lane[LAST] = group * SLOTS + lane[COUNT]
            groups[group].count = np.uint8(lane[COUNT])
            groups[group].size += np.uint32(lane[USED] - begin)
            for total in (used, live):
                words_at(total + 8 * lane[SEGMENT], 1)[0] += lane[USED] - begin
        numbers[i] = np.uint32(lane[LAST])
        group, slot = (lane[LAST] - 1) // SLOTS, (lane[LAST] - 1) % SLOTS
        groups[group].references += np.uint32(1)
        if slot < depth - 1:
            groups[np.int64(groups[group].before) - 1].references += np.uint32(1)
    keep_last(lane_of, first, lane_of.shape[0], tables[LANES], record)
    return np.int64(lane_of.shape[0])


@helper
def drop_item(number: Word, groups: Any, tables: Any, dead: Any, counts: Any) -> None:
    """Give up what an item needs."""
    last = np.int64(number) - 1
    group, slot = last // SLOTS, last % SLOTS
    before = np.int64(groups[group].before) - 1
    reaches_back = slot < layout_of(groups[group], tables)[0] - 1
    drop_reference(group, groups, dead, counts)
    if reaches_back:
        drop_reference(before, groups, dead, counts)


# Where the items are and how far apart, their geometry, their lanes, the tables, and how frames are written: the
# reference they are coded against, what zstd may make smaller, a new group's mode, capacity and layout, zstd's
# function, context and level, and scratch memory.
BATCH = INTEGER, INTEGER, WORDS, WORDS, WORDS, numba.types.UniTuple(INTEGER, 9)


@jit(INTEGER(*BATCH, INTEGER, NUMBERS))
def write_items(
    source: Word,
    stride: Word,
    geometry: Any,
    lane_of: Any,
    tables: Any,
    how: Any,
    first: Word,
    numbers: Any,
) -> Word:
    """Write items from number `first` on, `stride` bytes apart, and return how many are done.

    Fewer than all are done where the next one's lane needs memory, or a list of groups has run empty or full.
    """
    return write_batch(source, stride, geometry, lane_of, tables, how, first, numbers)


@jit(INTEGER(*BATCH, INTEGER, NUMBERS, NUMBERS))
def overwrite_items(
    source: Word,
    stride: Word,
    geometry: Any,
    lane_of: Any,
    tables: Any,
    how: Any,
    many: Word,
    numbers: Any,
    cells: Any,
) -> Word:
    """Write items and, if all are done and less than `many` groups are full, put their numbers into cells.

    Returns how many items are done; one more if cells have been put, two more if dead groups are to be buried.
    """
    groups, lists = groups_of(tables), lists_of(tables)
    dead, counts, count = lists[1], lists[3], lane_of.shape[0]
    if counts[DEAD] + 3 * count > LISTED:
        return np.int64(0)
    done = write_batch(source, stride, geometry, lane_of, tables, how, np.int64(0), numbers)
    if done < count or counts[FULL] >= many:
        return done
    fetch_add(tables[LIST_LENGTHS], np.int64(0))  # readers must not see a number before what it stands for
    for i in range(count):
        old, cells[i] = cells[i], numbers[i]
        if old != 0:
            drop_item(old, groups, tables, dead, counts)
    return done + (2 if counts[DEAD] >= MANY else 1)


@jit(INTEGER(NUMBERS, INTEGER, WORDS))
def drop_references(numbers: Any, first: Word, tables: Any) -> Word:
    """Give up what numbers from `first` on need, and return how many are done: fewer than all if the list is full."""
    groups, lists = groups_of(tables), lists_of(tables)
    for i in range(first, numbers.shape[0]):
        if numbers[i] != 0:
            if lists[3][DEAD] + 2 > LISTED:
                return np.int64(i)
            drop_item(numbers[i], groups, tables, lists[1], lists[3])
    return np.int64(numbers.shape[0])


@jit(numba.types.void(NUMBERS, WORDS))
def add_references(numbers: Any, tables: Any) -> None:
    """Count what numbers need once more."""
    groups = groups_of(tables)
    for i in range(numbers.shape[0]):
        if numbers[i] != 0:
            last = np.int64(numbers[i]) - 1
            group, slot = last // SLOTS, last % SLOTS
            groups[group].references += np.uint32(1)
            if slot < layout_of(groups[group], tables)[0] - 1:
                groups[np.int64(groups[group].before) - 1].references += np.uint32(1)
