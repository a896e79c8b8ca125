"""Observations that a thread decodes while JAX is busy, before they are asked for.

What is asked for is drawn when it is asked for. A step's number is never used again, so that rows which were decoded
for the same number hold the same step, and all others are decoded then.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np

from compressed_array_sbx._transitions import Ints, replace_rows

Read = Callable[[Ints, Ints], tuple[Any, Any]]


class PrefetchedBatch:
    """One batch that a thread decodes, the random words it was drawn by, and how to take these back.

    Args:
        rng: What drew the words.
        state: The state of that generator before it drew them.
        words: The random words of the batch.
        first: The numbers of the steps whose observations are decoded.
        last: The numbers of the steps whose next observations are decoded.
        read: What decodes them.
    """

    def __init__(self, rng: Any, state: Any, words: Ints, first: Ints, last: Ints, read: Read) -> None:
        self.rng, self.state, self.words = rng, state, words
        self._first, self._last, self._read = first, last, read
        self._found: tuple[Any, Any] | None = None
        self._thread = Thread(target=self._decode, name="sample_jax ahead", daemon=True)
        self._thread.start()

    def observations(self, first: Ints, last: Ints) -> tuple[Any, Any]:
        """Returns what `read` gives for these steps; to be asked once."""
        self._thread.join()
        found, self._found = self._found, None
        changed = (first != self._first) | (last != self._last)
        count = np.count_nonzero(changed)
        if found is None or 2 * count > len(first):
            return self._read(first, last)
        if count:
            for into, parts in zip(found, self._read(first[changed], last[changed]), strict=True):
                replace_rows(into, changed, parts)
        return found

    def _decode(self) -> None:
        try:
            self._found = self._read(self._first, self._last)
        except Exception:
            self._found = None  # whoever asks for them decodes them, and sees what is wrong
