"""Writing items into lanes' open groups, in memory: every item compared, every new frame coded, in one call a batch.

`groups` says what groups and kinds of record are, and `kernel_records` what arguments a kernel has. `engine_numpy` does
the same with numpy alone and makes the same bytes.
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
    inline_helper,
    jit,
    numbers_at,
    words_at,
)
from compressed_array._stores.frames.groups import (
    DEAD,
    FOLLOWING,
    FREE,
    FULL,
    GROUPS_AT_ONCE,
    ITEMS,
    LISTED,
    NEW,
    PLAIN_ROWS,
    RECORDS,
    SLOTS,
    TAG_BITS,
    WRITTEN,
    WRITTEN_WITH_DEAD,
)
from compressed_array._stores.frames.kernels.encode import count_new, encode_frame, take_frame, update_last_item
from compressed_array._stores.frames.kernels.tables import (
    INTEGER,
    NUMBERS,
    encoding_at,
    geometry_at,
    groups_of,
    lane_at,
    layout_of,
    lists_of,
    write_arguments_at,
    writer_tables_at,
)
from compressed_array._stores.frames.lanes import ROOM
from compressed_array._stores.frames.residuals import NUMBER_AT
from compressed_array._stores.frames.settings import AS_ROWS


@helper
def release_group(group: Word, groups: Any, lists: Any) -> None:
    """Counts one use of a group less, and lists the group as dead if that was the last."""
    groups[group].uses -= np.uint32(1)
    if groups[group].uses == 0:
        lists.dead[lists.counts[DEAD]] = group
        lists.counts[DEAD] += 1


@helper
def open_group(lane: Any, mode: Word, capacity: Word, layout: Word, groups: Any, lists: Any) -> None:
    """Gives a lane a new group behind the bytes it has written. A lane holds its group and the one before."""
    last, counts = lane.group, lists.counts
    counts[FREE] -= 1
    group = lists.free[counts[FREE]]
    if last != 0:
        if groups[last - 1].before != 0:
            release_group(np.int64(groups[last - 1].before) - 1, groups, lists)
        lists.full[counts[FULL]] = last - 1
        counts[FULL] += 1
    tag = np.int64(PLAIN_ROWS if mode == AS_ROWS else RECORDS)
    groups[group].where = tag << TAG_BITS | lane.segment << OFFSET_BITS | lane.used
    groups[group].size = np.uint32(0)
    groups[group].before = np.uint32(last)
    groups[group].uses = np.uint32(1)
    groups[group].layout = np.uint8(layout)
    lane.group, lane.count, lane.capacity, lane.mode = group + 1, 0, capacity, mode


@inline_helper
def write_batch(arguments: Any, source: Word, lane_of: Any, tables: Any, first: Word, numbers: Any) -> Word:
    """Writes items from number `first` on, as the arguments say. Returns how many are done.

    Fewer than all are done where the next one's lane needs memory, or a list of groups has run empty or full.
    """
    geometry, encoding = geometry_at(arguments.geometry), encoding_at(arguments.encoding)
    mode, capacity, scratch = arguments.mode, arguments.capacity, arguments.scratch
    depth, size = geometry.depth, geometry.frame_nbytes
    fresh = scratch + 2 * (size + (size >> 8) + ROOM)
    groups, lists = groups_of(tables), lists_of(tables)
    counts, used, live = lists.counts, tables.used, tables.live
    references = words_at(tables.references, max(encoding.reference, encoding.prediction >> NUMBER_AT) + 1)
    for i in range(first, lane_of.shape[0]):
        lane, item = lane_at(tables.lanes, lane_of[i]), source + i * arguments.stride
        kept, new, follows = lane.item, depth, lane.last != 0
        if follows:
            new = count_new(item, kept, geometry)
        if new > 0:
            if lane.group == 0 or lane.count + new > lane.capacity:
                if lane.count + new < depth:
                    new = depth  # a failed write may leave a group behind that is too short to reach back into
                lists_ready = counts[FREE] > 0 and counts[DEAD] < LISTED and counts[FULL] < LISTED
                if not lists_ready or lane.size - lane.used < capacity * (size + ROOM):
                    return i
                open_group(lane, mode, capacity, arguments.layout, groups, lists)
            begin, written_as = lane.used, lane.mode
            update_last_item(kept, item, new, geometry)
            for index in range(depth - new, depth):
                out = lane.buffer + lane.used
                if written_as == AS_ROWS:
                    take_frame(kept, np.int64(index), geometry, out)
                    lane.used += size
                else:
                    take_frame(kept, np.int64(index), geometry, fresh)
                    last = lane.frame if lane.count > 0 else np.int64(0)
                    lane.used += encode_frame(fresh, last, size, written_as, scratch, references, encoding, out)
                    copy_bytes(lane.frame, fresh, size)
                lane.count += 1
            group = lane.group - 1
            lane.last = group * SLOTS + lane.count
            groups[group].count = np.uint8(lane.count)
            groups[group].size += np.uint32(lane.used - begin)
            for total in (used, live):
                words_at(total + 8 * lane.segment, 1)[0] += lane.used - begin
        counts[ITEMS] += 1
        if follows:
            counts[FOLLOWING] += 1
            counts[NEW] += new
        numbers[i] = np.uint32(lane.last)
        group, slot = (lane.last - 1) // SLOTS, (lane.last - 1) % SLOTS
        groups[group].uses += np.uint32(1)
        if slot < depth - 1:
            groups[np.int64(groups[group].before) - 1].uses += np.uint32(1)
    return np.int64(lane_of.shape[0])


@helper
def release_item(number: Word, groups: Any, tables: Any, lists: Any) -> None:
    """Counts one use less of the one or two groups that an item needs, and lists those that are dead."""
    last = np.int64(number) - 1
    group, slot = last // SLOTS, last % SLOTS
    before = np.int64(groups[group].before) - 1
    reaches_back = slot < layout_of(groups[group], tables).depth - 1
    release_group(group, groups, lists)
    if reaches_back:
        release_group(before, groups, lists)


@jit(INTEGER(INTEGER, INTEGER, INTEGER, INTEGER))
def write_items(arguments_address: Word, source: Word, first: Word, row: Word) -> Word:
    """Writes items at `source` from number `first` on. Returns how many are done, as `write_batch` does.

    With a row, from 0 on: if all are done and few groups are full, it puts their numbers into the cells of that row,
    releases the items that were there, and returns `WRITTEN` or `WRITTEN_WITH_DEAD`.
    """
    arguments = write_arguments_at(arguments_address)
    count, tables = arguments.count, writer_tables_at(arguments.tables)
    lane_of = words_at(arguments.lane_of, count)
    numbers, cells = numbers_at(arguments.numbers, count), numbers_at(arguments.cells + 4 * count * row, count)
    groups, lists = groups_of(tables), lists_of(tables)
    counts = lists.counts
    if row >= 0:
        for i in range(count):
            numbers[i] = 0
        if counts[DEAD] + 3 * count > LISTED:
            return np.int64(0)
    done = write_batch(arguments, source, lane_of, tables, first, numbers)
    if row < 0 or done < count or counts[FULL] >= arguments.many_full:
        return done
    fetch_add(tables.counts, np.int64(0))  # readers must not see a number before what it stands for
    for i in range(count):
        old, cells[i] = cells[i], numbers[i]
        if old != 0:
            release_item(old, groups, tables, lists)
    return np.int64(WRITTEN_WITH_DEAD if counts[DEAD] >= GROUPS_AT_ONCE else WRITTEN)


@jit(INTEGER(NUMBERS, INTEGER, INTEGER))
def release_items(numbers: Any, first: Word, tables_address: Word) -> Word:
    """Releases the items of these numbers from `first` on. Returns how many are done: fewer if a list is full."""
    tables = writer_tables_at(tables_address)
    groups, lists = groups_of(tables), lists_of(tables)
    for i in range(first, numbers.shape[0]):
        if numbers[i] != 0:
            if lists.counts[DEAD] + 2 > LISTED:
                return np.int64(i)
            release_item(numbers[i], groups, tables, lists)
    return np.int64(numbers.shape[0])


@jit(numba.types.void(NUMBERS, INTEGER))
def retain_items(numbers: Any, tables_address: Word) -> None:
    """Counts one more use of every group that these items need, for each item."""
    tables = writer_tables_at(tables_address)
    groups = groups_of(tables)
    for i in range(numbers.shape[0]):
        if numbers[i] != 0:
            last = np.int64(numbers[i]) - 1
            group, slot = last // SLOTS, last % SLOTS
            groups[group].uses += np.uint32(1)
            if slot < layout_of(groups[group], tables).depth - 1:
                groups[np.int64(groups[group].before) - 1].uses += np.uint32(1)
