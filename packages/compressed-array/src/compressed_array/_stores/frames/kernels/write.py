"""Writing items into lanes' open groups, in memory: every item compared, every new frame coded, in one call a batch.

What groups and kinds of record are is said in `groups`, and what the records are that a kernel is told by in
`kernel_records`.
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
from compressed_array._stores.frames.kernels.items import count_new, encode_frame, move_on, take_frame
from compressed_array._stores.frames.kernels.tables import (
    geometry_at,
    groups_of,
    lane_at,
    layout_of,
    lists_of,
    step_at,
    writer_tables_at,
)
from compressed_array._stores.frames.lanes import ROOM, ROWS
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
    last = lane.group
    counts[FREE] -= 1
    group = free[counts[FREE]]
    if last != 0:
        if groups[last - 1].before != 0:
            drop_reference(np.int64(groups[last - 1].before) - 1, groups, dead, counts)
        full[counts[FULL]] = last - 1
        counts[FULL] += 1
    tag = np.int64(PLAIN if mode == ROWS else RECORDS)
    groups[group].where = tag << TAG_BITS | lane.segment << OFFSET_BITS | lane.used
    groups[group].size = np.uint32(0)
    groups[group].before = np.uint32(last)
    groups[group].references = np.uint32(1)
    groups[group].layout = np.uint8(layout)
    lane.group, lane.count, lane.capacity, lane.mode = group + 1, 0, capacity, mode


@part
def write_batch(step: Any, source: Word, lane_of: Any, tables: Any, first: Word, numbers: Any) -> Word:
    """Write items from number `first` on, as a step says, and return how many are done.

    Fewer than all are done where the next one's lane needs memory, or a list of groups has run empty or full.
    """
    geometry, mode, capacity, scratch = geometry_at(step.geometry), step.mode, step.capacity, step.scratch
    reference, worth, foretold = step.reference, step.worth_zstd, step.foretold
    compress, context, level, encode_words = step.compress, step.context, step.level, step.encode_words
    depth, size = geometry.depth, geometry.frame
    fresh = scratch + 2 * (size + (size >> 8) + ROOM)
    groups, lists = groups_of(tables), lists_of(tables)
    counts, used, live = lists[3], tables.used, tables.live
    references = words_at(tables.references, max(reference, foretold >> NUMBER_AT) + 1)
    for i in range(first, lane_of.shape[0]):
        lane, item = lane_at(tables.lanes, lane_of[i]), source + i * step.stride
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
                open_group(lane, mode, capacity, step.layout, groups, lists)
            begin, written_as = lane.used, lane.mode
            move_on(kept, item, new, geometry)
            for index in range(depth - new, depth):
                out = lane.buffer + lane.used
                if written_as == ROWS:
                    take_frame(kept, np.int64(index), geometry, out)
                    lane.used += size
                else:
                    take_frame(kept, np.int64(index), geometry, fresh)
                    last = lane.frame if lane.count > 0 else np.int64(0)
                    lane.used += encode_frame(
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
    reaches_back = slot < layout_of(groups[group], tables).depth - 1
    drop_reference(group, groups, dead, counts)
    if reaches_back:
        drop_reference(before, groups, dead, counts)


@jit(INTEGER(INTEGER, INTEGER, INTEGER, INTEGER))
def write_items(step_address: Word, source: Word, first: Word, row: Word) -> Word:
    """Write items at `source` from number `first` on, and return how many are done; fewer than all as in `write_batch`.

    With a row, from 0 on: if all are done and few groups are full, put their numbers into the cells of that row, and
    return `PUT` or `PUT_AND_DIED`.
    """
    step = step_at(step_address)
    count, tables, lane_of = step.count, writer_tables_at(step.tables), words_at(step.lane_of, step.count)
    numbers, cells = numbers_at(step.numbers, count), numbers_at(step.cells + 4 * count * row, count)
    groups, lists = groups_of(tables), lists_of(tables)
    dead, counts = lists[1], lists[3]
    if row >= 0:
        for i in range(count):
            numbers[i] = 0
        if counts[DEAD] + 3 * count > LISTED:
            return np.int64(0)
    done = write_batch(step, source, lane_of, tables, first, numbers)
    if row < 0 or done < count or counts[FULL] >= step.many_full:
        return done
    fetch_add(tables.counts, np.int64(0))  # readers must not see a number before what it stands for
    for i in range(count):
        old, cells[i] = cells[i], numbers[i]
        if old != 0:
            drop_item(old, groups, tables, dead, counts)
    return np.int64(PUT_AND_DIED if counts[DEAD] >= MANY else PUT)


@jit(INTEGER(NUMBERS, INTEGER, INTEGER))
def drop_references(numbers: Any, first: Word, tables_address: Word) -> Word:
    """Give up what numbers from `first` on need, and return how many are done: fewer than all if the list is full."""
    tables = writer_tables_at(tables_address)
    groups, lists = groups_of(tables), lists_of(tables)
    for i in range(first, numbers.shape[0]):
        if numbers[i] != 0:
            if lists[3][DEAD] + 2 > LISTED:
                return np.int64(i)
            drop_item(numbers[i], groups, tables, lists[1], lists[3])
    return np.int64(numbers.shape[0])


@jit(numba.types.void(NUMBERS, INTEGER))
def add_references(numbers: Any, tables_address: Word) -> None:
    """Count what numbers need once more."""
    tables = writer_tables_at(tables_address)
    groups = groups_of(tables)
    for i in range(numbers.shape[0]):
        if numbers[i] != 0:
            last = np.int64(numbers[i]) - 1
            group, slot = last // SLOTS, last % SLOTS
            groups[group].references += np.uint32(1)
            if slot < layout_of(groups[group], tables).depth - 1:
                groups[np.int64(groups[group].before) - 1].references += np.uint32(1)
