"""Reading items out of groups, in memory: record numbers in, finished items out, one call a batch.

A read goes through a group once, from the nearest record that needs none before it up to the last frame that is asked
for, and frames that two items share are decoded once for both. Items that follow each other, as in a window of steps,
go on from where the last one ended. `engine_numpy` reads the same items with numpy alone, each by itself.

Groups are read without checking bounds: their bytes were made here, or have passed `is_valid_group`.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from compressed_array._heap import OFFSET_BITS, OFFSET_MASK
from compressed_array._runtime.memory import CACHE_LINE
from compressed_array._runtime.numba_tools import (
    Word,
    call_pair,
    call_sizes,
    call_words,
    copy_bytes,
    fetch_add,
    helper,
    inline_helper,
    jit,
    load8,
    load64,
    prefetch,
    store8,
)
from compressed_array._stores.frames.groups import (
    ADDRESS_MASK,
    BITPACKED,
    FIRST_PACKED,
    FROM_REFERENCE,
    KIND_BITS,
    KIND_MASK,
    PLAIN_ROWS,
    RAW_FRAME,
    SINCE_LAST,
    SLOTS,
    TAG_BITS,
)
from compressed_array._stores.frames.kernels.bitpack import unpack_row
from compressed_array._stores.frames.kernels.residuals import (
    add_prediction,
    book_of,
    is_by_book,
    reference_of,
    split_record,
)
from compressed_array._stores.frames.kernels.tables import (
    INTEGER,
    NUMBERS,
    WORDS,
    groups_of,
    layout_of,
    reader_tables_at,
    walker_at,
)
from compressed_array._stores.frames.lanes import ROOM
from compressed_array.codecs._change_kernels import apply_changes, copy_short, take_varint

MOST_PREFETCHED = 2048  # bytes of an item
ITEM_ROWS = numba.types.uint8[:, ::1]
# What threads that read items together count: items that one has taken on, items that are read, and one that failed,
# plus one.
TAKEN, DONE, FAILED = range(3)


@inline_helper
def emit(frame: Word, out: Word, slot: Word, depth: Word, outer: Word, inner: Word) -> None:
    """Copies a frame to its place in an item."""
    target = out + slot * inner
    if outer == 1:
        copy_bytes(target, frame, inner)
    elif inner == 1:
        for k in range(outer):
            store8(target + k * depth, load8(frame + k))
    else:
        for k in range(outer):
            copy_short(target + k * depth * inner, frame + k * inner, inner)


@helper
def place_of(address: Word, tables: Any) -> Word:
    """Returns where in memory an address of the heap is."""
    return np.int64(load64(tables.segments + 8 * (address >> OFFSET_BITS))) + (address & OFFSET_MASK)


@helper
def is_rows(where: Word) -> Word:
    """Whether a group's frames are found without those before them."""
    return where >> TAG_BITS == PLAIN_ROWS or where >> TAG_BITS == BITPACKED


@inline_helper
def group_bytes(where: Word, tables: Any, unpacked: Word) -> Word:
    """Returns where a group's records begin, unpacked if a codec had packed them; 0 if that fails."""
    tag, address = where >> TAG_BITS, where & ADDRESS_MASK
    at = place_of(address, tables)
    if tag < FIRST_PACKED or tag == BITPACKED:
        return at
    # The frame knows its size. The table's may already be that of another place.
    packed = call_pair(tables.frame_size, at, tables.unpacked)
    if packed <= 0:
        return np.int64(0)
    dictionary = np.int64(load64(tables.dictionaries + 8 * (tag - FIRST_PACKED)))
    size = call_sizes(tables.decompress, tables.context, unpacked, tables.unpacked, at, packed, dictionary)
    return unpacked if size > 0 else np.int64(0)


@inline_helper
def unpack(
    zstd: Word, end: Word, prediction: Word, frame_nbytes: Word, tables: Any, scratch: Word, frame: Word
) -> Word:
    """Decompresses a zstd record and undoes its prediction; false if that fails."""
    # A residual goes behind what a group unpacks to.
    left = frame if prediction == 0 else scratch + frame_nbytes + tables.unpacked + 2 * ROOM
    if tables.context == 0:
        return False
    if call_sizes(tables.decompress, tables.context, left, frame_nbytes, zstd, end - zstd, 0) != frame_nbytes:
        return False
    if prediction != 0:
        add_prediction(left, frame_nbytes, prediction, reference_of(prediction, tables.references), frame)
    return True


@helper
def decode_frames(
    group: Any,
    number: Word,
    first: Word,
    last: Word,
    shift: Word,
    layout: Any,
    tables: Any,
    walker: Any,
) -> Word:
    """Decodes the frames of group `number` from `first` to `last`, and puts each where it belongs; false if that fails.

    Frame k of the group is frame `k + shift` as the items count. The walker says where one item goes and which frame it
    begins with, and the same of another, which is missing if its address is 0.
    """
    depth, outer, inner, scratch = layout.depth, layout.outer, layout.inner, tables.scratch
    frame_nbytes, frame = outer * inner, scratch
    where = group.where  # one load: a writer may be moving the group
    plain, bitpacked = where >> TAG_BITS == PLAIN_ROWS, where >> TAG_BITS == BITPACKED
    at, known = walker.next_record, np.int64(0)
    if walker.last_group == number and walker.last_frame < first:
        # By the bytes that were read last. If the group has moved since, these still hold every frame asked for.
        plain, bitpacked, known = False, False, walker.last_frame + 1
    else:
        at = group_bytes(where, tables, scratch + frame_nbytes + ROOM)
    walker.last_group = -1  # until the scratch memory holds a whole frame again
    if at == 0:
        return False
    start, begin = np.int64(first), at
    if not (plain or bitpacked):
        start = known
        for k in range(known, first + 1):
            head, body = take_varint(at)
            if head & KIND_MASK != SINCE_LAST:
                start, begin = np.int64(k), at
            at = body + (head >> KIND_BITS)
        at = begin
    for k in range(start, last + 1):
        source = frame
        if plain:
            source = at + k * frame_nbytes
        elif bitpacked:
            unpack_row(at, np.int64(k), frame_nbytes, frame)
        else:
            head, body = take_varint(at)
            kind, length = head & KIND_MASK, head >> KIND_BITS
            at = body + length
            if kind == SINCE_LAST:
                apply_changes(body, at, frame)
            elif kind == FROM_REFERENCE:
                base = np.int64(load64(tables.references + 8 * np.int64(load8(body))))
                copy_bytes(frame, base, frame_nbytes)
                apply_changes(body + 1, at, frame)
            elif kind == RAW_FRAME:
                copy_bytes(frame, body, frame_nbytes)
            else:
                prediction, rest = split_record(body)
                if is_by_book(prediction):
                    if tables.decode_words == 0:
                        return False
                    call_words(tables.decode_words, rest, frame_nbytes, book_of(prediction, tables.references), frame)
                elif not unpack(rest, at, prediction, frame_nbytes, tables, scratch, frame):
                    return False
        for one in range(2):
            target, begins = (walker.other, walker.other_first) if one else (walker.item, walker.first)
            slot = k + shift - begins
            if target != 0 and 0 <= slot < depth and k >= first:
                emit(source, target, slot, depth, outer, inner)
    if not (plain or bitpacked):
        walker.last_group, walker.last_frame, walker.next_record = number, last, at
    return True


@inline_helper
def copy_shared(group: Word, layout: Any, groups: Any, walker: Any) -> Word:
    """Copies what an item shares with the last one read, if that came before it. Returns its first missing frame."""
    depth, outer, inner, end = layout.depth, layout.outer, layout.inner, walker.end
    first, last, known = end - depth + 1, walker.last_group, walker.last_frame
    if last < 0 or groups[last].layout != groups[group].layout:
        walker.last_group = -1
        return first
    if last != group:
        if np.int64(groups[group].before) - 1 != last:
            return first
        known -= np.int64(groups[last].count)
    ahead = end - known
    if ahead < 0 or ahead >= depth:
        return first
    for k in range(outer):
        source = walker.last_item + (k * depth + ahead) * inner
        copy_short(walker.item + k * depth * inner, source, (depth - ahead) * inner)
    return known + 1


@inline_helper
def decode_items(group: Word, walker: Any, groups: Any, tables: Any) -> Word:
    """Decodes the walker's items; frames of the previous group have negative indices."""
    layout, is_one = layout_of(groups[group], tables), walker.other == 0
    low, high = walker.end, walker.end
    if is_one:
        low = copy_shared(group, layout, groups, walker)
        if low > high:  # the same item again
            return True
    else:
        low, high = min(walker.end, walker.other_end) - layout.depth + 1, max(walker.end, walker.other_end)
        walker.last_group = -1
    walker.first, walker.other_first = walker.end - layout.depth + 1, walker.other_end - layout.depth + 1
    for which in range(0 if low < 0 else 1, 2 if high >= 0 else 1):
        first, last, shift, walked = max(low, np.int64(0)), high, np.int64(0), group
        if which == 0:
            walked = np.int64(groups[group].before) - 1
            count = np.int64(groups[walked].count)
            first, last, shift = count + low, min(high, np.int64(-1)) + count, -count
        if not decode_frames(groups[walked], walked, first, last, shift, layout, tables, walker):
            return False
    walker.last_item = walker.item
    if not is_one:
        walker.last_group = -1
    return True


@helper
def group_of_both(a: Word, b: Word, walker: Any, groups: Any, tables: Any) -> Word:
    """Returns the group whose single pass decodes both items, and stores in the walker where each ends.

    Returns -1 if the items lie too far apart.
    """
    group_a, group_b = (a - 1) // SLOTS, (b - 1) // SLOTS
    walker.end, walker.other_end = (a - 1) % SLOTS, (b - 1) % SLOTS
    if group_a == group_b:
        return group_a
    if groups[group_a].layout != groups[group_b].layout:
        return np.int64(-1)
    later, earlier, earlier_end = group_b, group_a, walker.end
    is_later = np.int64(groups[group_a].before) - 1 == group_b
    if is_later:
        later, earlier, earlier_end = group_a, group_b, walker.other_end
    elif np.int64(groups[group_b].before) - 1 != group_a:
        return np.int64(-1)
    count = np.int64(groups[earlier].count)
    earlier_end -= count
    if is_later:
        walker.other_end = earlier_end
    else:
        walker.end = earlier_end
    return later if earlier_end - layout_of(groups[later], tables).depth + 1 >= -count else np.int64(-1)


@inline_helper
def prefetch_item(number: Word, now: Word, item_nbytes: Word, groups: Any, tables: Any) -> None:
    """Prefetches the bytes an item will need into the CPU cache, unless it is the next one of the same group."""
    if number == 0 or number == now + 1:
        return
    group = groups[(number - 1) // SLOTS]
    where, size = group.where, np.int64(group.size)
    address = where & ADDRESS_MASK
    at = place_of(address, tables)
    if where >> TAG_BITS == PLAIN_ROWS:
        at += (number - 1) % SLOTS * item_nbytes  # in a group of single frames, and otherwise a wrong guess
        size = item_nbytes
    elif where >> TAG_BITS == BITPACKED:
        row = at + (number - 1) % SLOTS * size // np.int64(group.count)  # about there, and its head in any case
        for k in range(0, 2 * CACHE_LINE, CACHE_LINE):
            prefetch(row + k)
        size = min(size, np.int64(2 * CACHE_LINE))
    for k in range(0, min(size, np.int64(MOST_PREFETCHED)), CACHE_LINE):
        prefetch(at + k)


@inline_helper
def read_item(
    number: Word,
    other: Word,
    at: Word,
    other_at: Word,
    item_nbytes: Word,
    pair: Word,
    groups: Any,
    tables: Any,
    walker: Any,
) -> Word:
    """Reads an item to `at`, and in a pair another to `other_at`; false if that fails."""
    both = np.int64(-1)
    if number != 0 and other != 0 and not is_rows(groups[(number - 1) // SLOTS].where):
        both = group_of_both(number, other, walker, groups, tables)
    for one in range(1 + pair if both < 0 else 1):
        group, target, last = both, other_at if one else at, (other if one else number) - 1
        if both >= 0:
            walker.item, walker.other = at, other_at
        elif last < 0:
            for k in range(item_nbytes):
                store8(target + k, np.uint64(0))
            continue
        else:
            group, slot = last // SLOTS, last % SLOTS
            where = groups[group].where
            # A frame that is an item and needs no other takes no walk; for one of some bytes, that is most of it.
            if is_rows(where) and layout_of(groups[group], tables).depth == 1:
                rows = place_of(where & ADDRESS_MASK, tables)
                if where >> TAG_BITS == BITPACKED:
                    unpack_row(rows, slot, item_nbytes, target)
                else:
                    copy_bytes(target, rows + slot * item_nbytes, item_nbytes)
                continue
            walker.end, walker.item, walker.other = slot, target, 0
        if not decode_items(group, walker, groups, tables):
            return False
    return True


@jit(INTEGER(NUMBERS, ITEM_ROWS, NUMBERS, ITEM_ROWS, INTEGER, WORDS, INTEGER))
def read_items(
    numbers: Any, out: Any, others: Any, other_out: Any, tables_address: Word, progress: Any, at_once: Word
) -> Word:
    """Reads items to `out`, and others to `other_out` unless that has no rows. Returns how many items this call did.

    There are as many others, each read with its item, or fewer, each read on from the last item of an equal part.
    Several calls share the items by their `progress`, `at_once` items at a time. The scratch memory is a thread's own;
    it has room for two frames, an unpacked group and three times `ROOM`.
    """
    item_nbytes, pair = np.int64(out.shape[1]), other_out.shape[0] == out.shape[0]
    target, other_target = np.int64(out.ctypes.data), np.int64(other_out.ctypes.data)
    # Views by address: an array that a kernel owns or is given is counted at every call, which waits for all stores.
    tables = reader_tables_at(tables_address)
    walker, groups = walker_at(tables.walker), groups_of(tables)
    shared = np.int64(progress.ctypes.data)
    count, mine = np.int64(numbers.shape[0]), np.int64(0)
    each = count + 1 if pair or other_out.shape[0] == 0 else count // np.int64(other_out.shape[0])
    while True:
        low = fetch_add(shared + 8 * TAKEN, at_once)
        if low >= count:
            break
        high = min(low + at_once, count)
        walker.last_group = -1  # what lies in the scratch memory is of another call, or another's items
        for i in range(low, high):
            number, other = np.int64(numbers[i]), np.int64(others[i]) if pair else np.int64(0)
            if i + 1 < high:
                prefetch_item(np.int64(numbers[i + 1]), number, item_nbytes, groups, tables)
            at, other_at = target + i * item_nbytes, other_target + i * item_nbytes
            for behind in range(2 if (i + 1) % each == 0 else 1):
                if behind:
                    part_number = (i + 1) // each - 1
                    number, at = np.int64(others[part_number]), other_target + part_number * item_nbytes
                if not read_item(number, other, at, other_at, item_nbytes, pair, groups, tables, walker):
                    progress[FAILED] = i + 1
        mine += high - low
        fetch_add(shared + 8 * DONE, high - low)
    return mine


@jit(numba.types.boolean(WORDS, INTEGER, INTEGER))
def wait_for(progress: Any, count: Word, polls: Word) -> Any:
    """Whether all items are read, asking up to `polls` times."""
    shared = np.int64(progress.ctypes.data)
    for _ in range(polls):  # noqa: SIM110  numba compiles no generators
        if fetch_add(shared + 8 * DONE, np.int64(0)) == count:
            return True
    return False
