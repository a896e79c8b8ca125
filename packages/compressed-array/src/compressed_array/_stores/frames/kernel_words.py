"""Which of a store's tables is at which place in the words that are handed to a kernel.

A kernel is given the addresses of all tables in one array: to take an array object apart takes longer than writing a
short item does.
"""

from __future__ import annotations

GROUPS, GROUP_COUNT, LAYOUTS, REFERENCES = range(4)
# For writing: the lanes, lists of groups and how long these are, the bytes of segments that are written and that live.
LANES, FREE_GROUPS, DEAD_GROUPS, FULL_GROUPS, LIST_LENGTHS, USED_BYTES, LIVE_BYTES = range(4, 11)
# For reading: where the segments begin, memory to decode in, two functions of zstd's, a context for them, how many
# bytes a group may unpack to and the function that decodes by a codebook, or 0 where there are none; words in which
# the kernel keeps where its walks begin and end, a thread's own as all of these are; then a dictionary, or 0, for each
# codec of groups.
BASES, SCRATCH, DECOMPRESS, FRAME_SIZE, CONTEXT, UNPACKED, DECODE_WORDS, WALKS = range(4, 12)
WALK_WORDS = 10
CODECS = WALKS + WALK_WORDS
WRITER_TABLES = 11  # words, for writing

# What writing items is told, in words by themselves: how far apart the items are; where their geometry is and how many
# words that has; where their lanes are and how many; where numbers go at first, and where the cells of row 0 are; from
# how many full groups on something is due; where the words above are; and `HOW` frames are written, in eleven words:
# the reference they are coded against, what zstd may make smaller, a new group's mode, capacity and layout, what is
# foretold of frames for zstd, its function, context and level, scratch memory, and the function that encodes by a
# codebook, or 0 where there are none.
STRIDE, GEOMETRY_AT, GEOMETRY_WORDS, LANES_AT, LANE_COUNT, NUMBERS_AT, CELLS_AT, MANY_FULL, TABLES_AT, HOW = range(10)
