"""Run-length coding, written once over the array namespace: `xp` is numpy, or torch with tensors of any device.

A payload is a count of tokens (4 bytes, little-endian), the tokens, their extras, the values, and the odd bytes that
did not make a whole item. A token is a byte: its high half says how many values stand for themselves, its low half how
often the value after those is repeated, less one; at 15 an extra byte adds to it. So a stretch of 15 literals and a
run of up to 271 items cost one token, and no payload decodes to more than 271 times its size.

Two items are equal when their bits are, which is why the formula is given integers whatever the array holds.
"""

from __future__ import annotations

from typing import Any

HEADER = 4
MOST_LITERALS = 15
ESCAPE = 15
LONGEST_RUN = ESCAPE + 1 + 255


def repeat(xp: Any, values: Any, counts: Any) -> Any:
    """Returns each value as often as its count says; the one thing numpy and torch name differently."""
    return xp.repeat_interleave(values, counts) if hasattr(xp, "repeat_interleave") else xp.repeat(values, counts)


def count_up(xp: Any, like: Any) -> Any:
    """Returns 0, 1, 2 … as long as `like` and where it is."""
    return xp.cumsum(xp.ones_like(like), 0) - 1


def run_starts(xp: Any, items: Any) -> Any:
    """Returns which items begin a run, along the last axis."""
    return xp.concatenate((items[..., :1] == items[..., :1], items[..., 1:] != items[..., :-1]), -1)


def split_into_runs(xp: Any, items: Any) -> tuple[Any, Any]:
    """Returns values and lengths of the runs in a flat, non-empty integer array; none is longer than LONGEST_RUN."""
    starts = xp.where(run_starts(xp, items))[0]
    lengths = xp.concatenate((starts[1:], starts[:1] + len(items))) - starts
    pieces = (lengths + (LONGEST_RUN - 1)) // LONGEST_RUN
    split = repeat(xp, xp.ones_like(lengths) * LONGEST_RUN, pieces)
    split[xp.cumsum(pieces, 0) - 1] = lengths - (pieces - 1) * LONGEST_RUN
    return repeat(xp, items[starts], pieces), split


def encode(xp: Any, items: Any) -> tuple[Any, Any, Any]:
    """Returns (tokens, extras, values) of a flat, non-empty integer array; the first two are uint8."""
    values, lengths = split_into_runs(xp, items)
    # A token ends with a run, or with the sixteenth value since the last run, or with the last value of all.
    ends_stretch = lengths > 1
    ends_stretch[-1:] = True
    stretch_ends = xp.where(ends_stretch)[0]
    stretch_starts = xp.concatenate((stretch_ends[:1] * 0, stretch_ends[:-1] + 1))
    in_stretch = count_up(xp, lengths) - repeat(xp, stretch_starts, stretch_ends - stretch_starts + 1)
    ends = xp.where(ends_stretch | (in_stretch % (MOST_LITERALS + 1) == MOST_LITERALS))[0]
    literals = ends - xp.concatenate((ends[:1] * 0 - 1, ends[:-1])) - 1
    more = lengths[ends] - 1
    escaped = more >= ESCAPE
    low_half = xp.where(escaped, xp.ones_like(more) * ESCAPE, more)
    return (
        xp.asarray(literals * (ESCAPE + 1) + low_half, dtype=xp.uint8),
        xp.asarray(more[escaped] - ESCAPE, dtype=xp.uint8),
        values,
    )


def token_counts(xp: Any, tokens: Any) -> tuple[Any, Any]:
    """Returns what the two halves of each token say: its literals, and its repeats with the extras not yet added."""
    tokens = xp.asarray(tokens, dtype=xp.int64)
    return tokens // (ESCAPE + 1), tokens % (ESCAPE + 1)


def decode(xp: Any, literals: Any, repeats: Any, extras: Any, values: Any) -> Any:
    """Returns the items of which `encode` made the tokens, given as `token_counts`, and their extras and values."""
    more = repeats + 0
    more[repeats == ESCAPE] += xp.asarray(extras, dtype=xp.int64)
    lengths = xp.ones_like(xp.asarray(values, dtype=xp.int64))
    lengths[xp.cumsum(literals + 1, 0) - 1] += more
    return repeat(xp, values, lengths)
