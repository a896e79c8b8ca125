"""Observations that a thread decodes while JAX is busy, before their batch is asked for.

When it is asked for, the same random words are drawn with again. A step's number is never used again, so rows that were
decoded for the same number hold the same step; only the others are decoded then.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np

from compressed_array_sbx._transitions import Ints, replace_rows

Read = Callable[[Ints, Ints], tuple[Any, Any]]


class PrefetchedBatch:
    """One batch that a thread decodes, the random words it was drawn by, and what it takes to undo that draw.

    Args:
        rng: The generator that drew the words.
        state: The state of that generator before it drew them.
        words: The random words of the batch.
        first: The numbers of the steps whose observations are decoded.
        last: The numbers of the steps whose next observations are decoded.
        read: The function that decodes them. It must not refer to the buffer, which refers to this object.
    """

    def __init__(self, rng: Any, state: Any, words: Ints, first: Ints, last: Ints, read: Read) -> None:
        self.rng, self.state, self.words = rng, state, words
        self._first, self._last = first, last
        self._found: tuple[Any, Any] | None = None
        self._thread = Thread(target=self._decode, args=[read], name="sample_jax ahead", daemon=True)
        self._thread.start()

    def observations(self, first: Ints, last: Ints, read: Read) -> tuple[Any, Any]:
        """Returns what `read` gives for these steps; to be called once."""
        self._thread.join()
        found, self._found = self._found, None
        changed = (first != self._first) | (last != self._last)
        count = np.count_nonzero(changed)
        if found is None or 2 * count > len(first):
            return read(first, last)
        if count:
            for into, parts in zip(found, read(first[changed], last[changed]), strict=True):
                replace_rows(into, changed, parts)
        return found

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a copy of the buffer decodes its own batches ahead

    def _decode(self, read: Read) -> None:
        try:
            self._found = read(self._first, self._last)
        except Exception:
            self._found = None  # `observations` decodes them then, and raises in the caller's thread
