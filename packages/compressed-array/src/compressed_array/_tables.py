"""Which of a store's tables is at which place in the words that are handed to a kernel.

A kernel is given the addresses of all tables in one array: to take an array object apart takes longer than writing a
short item does.
"""

from __future__ import annotations

GROUPS, GROUP_COUNT, LAYOUTS, REFERENCES = range(4)
# For writing: the lanes, lists of groups and how long these are, the bytes of segments that are written and that live.
LANES, FREE_GROUPS, DEAD_GROUPS, FULL_GROUPS, LIST_LENGTHS, USED_BYTES, LIVE_BYTES = range(4, 11)
# For reading: where the segments begin, memory to decode in, two functions of zstd's, a context for them and how many
# bytes a group may unpack to; then a dictionary, or 0, for each codec of groups.
BASES, SCRATCH, DECOMPRESS, FRAME_SIZE, CONTEXT, UNPACKED, CODECS = range(4, 11)
