"""`MemoryUsage`: what a buffer holds, and what a plain one would hold, as adapters report it to people."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array.registry import shorthand

__all__ = ["KeyUsage", "MemoryUsage", "available_memory", "size", "times", "usage_of"]

PLAIN = "plain"  # shown where there is no codec


@dataclass(frozen=True)
class KeyUsage:
    """What one field of a buffer takes."""

    raw: int  # bytes that a plain buffer would have filled
    stored: int  # bytes held
    shared: int  # items that cost nothing, since they were there already
    codec: str  # the codec's name, or "plain"

    @property
    def ratio(self) -> float:
        return self.raw / max(self.stored, 1)

    def __str__(self) -> str:
        if self.codec == PLAIN:  # as large from the start as it will ever be
            return f"{size(self.raw)} in a plain array of {size(self.stored)}"
        if not self.raw:
            return f"none yet, in {size(self.stored)} ({self.codec})"
        text = f"{size(self.raw)} in {size(self.stored)} ({times(self.ratio)}, {self.codec})"
        return f"{text}, {self.shared:,} shared: equal to another, and kept once" if self.shared else text


@dataclass(frozen=True)
class MemoryUsage:
    """What a buffer holds; as a text, it is what a person wants to know of that."""

    transitions: int  # that are held
    capacity: int  # transitions there is room for
    keys: dict[str, KeyUsage]  # for each field by name; "" for observations without a name
    rest: int  # bytes of actions, rewards and whatever else is allocated at once

    @property
    def raw(self) -> int:
        """Returns how many bytes a plain buffer would have filled with these items."""
        return sum(key.raw for key in self.keys.values())

    @property
    def stored(self) -> int:
        """Returns how many bytes the items take."""
        return sum(key.stored for key in self.keys.values())

    @property
    def shared(self) -> int:
        """Returns how many items cost nothing, since they were there already."""
        return sum(key.shared for key in self.keys.values())

    @property
    def ratio(self) -> float:
        return self.raw / max(self.stored, 1)

    def __str__(self) -> str:
        lines = [f"{self.transitions:,} of {self.capacity:,} transitions"]
        lines += [f"  {name or 'observations'}: {key}" for name, key in self.keys.items()]
        return "\n".join([*lines, f"  everything else: {size(self.rest)}"])


def usage_of(arrays: Sequence[Any], transitions: int, item_nbytes: int) -> KeyUsage:
    """Returns the usage of one field.

    Args:
        arrays: The arrays that hold it, plain or compressed.
        transitions: How many transitions are held.
        item_nbytes: How many bytes one item has.

    >>> print(usage_of([np.zeros((1000, 8))], transitions=100, item_nbytes=64))
    6.4 kB in a plain array of 64.0 kB
    """
    raw = transitions * len(arrays) * item_nbytes
    if getattr(arrays[0], "store", None) is None:
        return KeyUsage(raw, sum(array.nbytes for array in arrays), 0, PLAIN)
    stores = {id(array.store): array.store for array in arrays}
    stored, shared = sum(store.nbytes for store in stores.values()), 0
    for store in stores.values():
        numbers = [numbers_of(array) for array in arrays if array.store is store]
        held = np.concatenate(numbers)
        held = held[held != 0]
        stored += sum(n.nbytes for n in numbers)
        shared += len(held) - len(np.unique(held))
    return KeyUsage(raw, stored, shared, shorthand(arrays[0].codec))


def numbers_of(array: Any) -> npt.NDArray[Any]:
    """Returns the numbers by which an array's store, of host or device, knows its items; 0 where there is none."""
    cells = array.cells
    numbers: npt.NDArray[Any] = cells.numbers if hasattr(cells, "numbers") else cells.cpu().numpy()
    return numbers.reshape(-1)


def available_memory() -> int | None:
    """Returns how many bytes of memory are free for this process, or None where the system does not say."""
    with suppress(ImportError):
        import psutil  # if it happens to be there

        return int(psutil.virtual_memory().available)
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def times(ratio: float) -> str:
    """Returns a text for people that says how many times smaller, or larger, something is.

    Args:
        ratio: How many bytes it would take plain, for each that it takes.

    >>> times(31.2), times(0.5), times(1.0)
    ('31.2x smaller', '2.0x larger', 'as large')
    """
    if 0.95 <= ratio < 1.05:
        return "as large"
    if ratio <= 0:  # nothing raw, only overhead
        return "larger"
    return f"{ratio:.1f}x smaller" if ratio > 1 else f"{1 / ratio:.1f}x larger"


def size(nbytes: float) -> str:
    """Returns a text for people that says a number of bytes.

    Args:
        nbytes: The number, whole or not.

    >>> size(999), size(28_224), size(3e9)
    ('999 B', '28.2 kB', '3.00 GB')
    """
    for unit in ("B", "kB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.2f} GB"
