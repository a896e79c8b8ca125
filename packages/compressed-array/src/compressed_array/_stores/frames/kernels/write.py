"""Writing items into lanes' open groups, in memory: every item compared, every new frame coded, in one call a batch.

What groups, kinds of record, lanes and a geometry's words are is said in `groups`, `lanes` and `layouts`.
`engine_numpy` does the same with numpy alone and makes the same bytes.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from compressed_array._heap import OFFSET_BITS
from compressed_array._runtime.numba_tools import (
    Word,
    copy_bytes,
    fetch_add,
    helper,
    jit,
    numbers_at,
    part,
    words_at,
)
from compressed_array._stores.frames.groups import (
    DEAD,
    FOLLOWING,
    FREE,
    FULL,
    ITEMS,
    LISTED,
    MANY,
    NEW,
    PLAIN,
    PUT,
    PUT_AND_DIED,
    RECORDS,
    SLOTS,
    TAG_BITS,
)
from compressed_array._stores.frames.kernel_words import (
    CELLS_AT,
    GEOMETRY_AT,
    GEOMETRY_WORDS,
    HOW,
    LANE_COUNT,
    LANES,
    LANES_AT,
    LIST_LENGTHS,
    LIVE_BYTES,
    MANY_FULL,
    NUMBERS_AT,
    REFERENCES,
    STRIDE,
    TABLES_AT,
    USED_BYTES,
    WRITER_TABLES,
)
from compressed_array._stores.frames.kernels.items import count_new, encode_frame, move_on, take_frame
from compressed_array._stores.frames.kernels.tables import groups_of, lane_at, layout_of, lists_of
from compressed_array._stores.frames.lanes import (
    BUFFER,
    CAPACITY,
    COUNT,
    FRAME_AT,
    GROUP_OF,
    ITEM,
    LAST,
    MODE,
    ROOM,
    SEGMENT,
    SIZE,
    USED,
)
from compressed_array._stores.frames.lanes import ROWS as ROWS_MODE
from compressed_array._stores.frames.layouts import DEPTH, FRAME
from compressed_array._stores.frames.residuals import NUMBER_AT

INTEGER = numba.types.int64
WORDS, NUMBERS = INTEGER[::1], numba.types.uint32[::1]


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


@part
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
    """Write items from number `first` on, `stride` bytes apart, and return how many are done.

    Fewer than all are done where the next one's lane needs memory, or a list of groups has run empty or full.
    """
    reference, worth, mode, capacity, layout, foretold, compress, context, level, scratch, encode_words = how
    depth, size = geometry[DEPTH], geometry[FRAME]
    fresh = scratch + 2 * (size + (size >> 8) + ROOM)
    groups, lists = groups_of(tables), lists_of(tables)
    counts, used, live = lists[3], tables[USED_BYTES], tables[LIVE_BYTES]
    references = words_at(tables[REFERENCES], max(reference, foretold >> NUMBER_AT) + 1)
    for i in range(first, lane_of.shape[0]):
        lane, item = lane_at(tables[LANES], lane_of[i]), source + i * stride
        kept, new, follows = lane[ITEM], depth, lane[LAST] != 0
        if follows:
            new = count_new(item, kept, geometry)
        if new > 0:
            if lane[GROUP_OF] == 0 or lane[COUNT] + new > lane[CAPACITY]:
                if lane[COUNT] + new < depth:
                    new = depth  # a failed write may leave a group behind that is too short to reach back into
                lists_ready = counts[FREE] > 0 and counts[DEAD] < LISTED and counts[FULL] < LISTED
                if not lists_ready or lane[SIZE] - lane[USED] < capacity * (size + ROOM):
                    return i
                open_group(lane, mode, capacity, layout, groups, lists)
            begin, written_as = lane[USED], lane[MODE]
            move_on(kept, item, new, geometry)
            for index in range(depth - new, depth):
                out = lane[BUFFER] + lane[USED]
                if written_as == ROWS_MODE:
                    take_frame(kept, np.int64(index), geometry, out)
                    lane[USED] += size
                else:
                    take_frame(kept, np.int64(index), geometry, fresh)
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
                        foretold,
                        encode_words,
                        out,
                    )
                    copy_bytes(lane[FRAME_AT], fresh, size)
                lane[COUNT] += 1
            group = lane[GROUP_OF] - 1
            lane[LAST] = group * SLOTS + lane[COUNT]
            groups[group].count = np.uint8(lane[COUNT])
            groups[group].size += np.uint32(lane[USED] - begin)
            for total in (used, live):
                words_at(total + 8 * lane[SEGMENT], 1)[0] += lane[USED] - begin
        counts[ITEMS] += 1
        if follows:
            counts[FOLLOWING] += 1
            counts[NEW] += new
        numbers[i] = np.uint32(lane[LAST])
        group, slot = (lane[LAST] - 1) // SLOTS, (lane[LAST] - 1) % SLOTS
        groups[group].references += np.uint32(1)
        if slot < depth - 1:
            groups[np.int64(groups[group].before) - 1].references += np.uint32(1)
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


@jit(INTEGER(WORDS, INTEGER, INTEGER, INTEGER))
def write_items(step: Any, source: Word, first: Word, row: Word) -> Word:
    """Write items at `source` from number `first` on, and return how many are done; fewer than all as in `write_batch`.

    With a row, from 0 on: if all are done and few groups are full, put their numbers into the cells of that row, and
    return `PUT` or `PUT_AND_DIED`.
    """
    count, tables = step[LANE_COUNT], words_at(step[TABLES_AT], np.int64(WRITER_TABLES))
    geometry, lane_of = words_at(step[GEOMETRY_AT], step[GEOMETRY_WORDS]), words_at(step[LANES_AT], count)
    numbers, cells = numbers_at(step[NUMBERS_AT], count), numbers_at(step[CELLS_AT] + 4 * count * row, count)
    how = step[HOW], step[HOW + 1], step[HOW + 2], step[HOW + 3], step[HOW + 4], step[HOW + 5]
    functions_and_scratch = step[HOW + 6], step[HOW + 7], step[HOW + 8], step[HOW + 9], step[HOW + 10]
    groups, lists = groups_of(tables), lists_of(tables)
    dead, counts = lists[1], lists[3]
    if row >= 0:
        for i in range(count):
            numbers[i] = 0
        if counts[DEAD] + 3 * count > LISTED:
            return np.int64(0)
    done = write_batch(source, step[STRIDE], geometry, lane_of, tables, how + functions_and_scratch, first, numbers)
    if row < 0 or done < count or counts[FULL] >= step[MANY_FULL]:
        return done
    fetch_add(tables[LIST_LENGTHS], np.int64(0))  # readers must not see a number before what it stands for
    for i in range(count):
        old, cells[i] = cells[i], numbers[i]
        if old != 0:
            drop_item(old, groups, tables, dead, counts)
    return np.int64(PUT_AND_DIED if counts[DEAD] >= MANY else PUT)


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
