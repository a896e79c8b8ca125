"""Reading the observations of one sample: what two arrays share is decoded once, into memory that tensors take over.

SB3 indexes `next_observations` and `observations` with the same rows and environments, one after the other, and copies
what it gets into tensors. Inside `SampleScope.during`, the first of the two decodes both, and the copy is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import torch

import compressed_array as ca

Array = npt.NDArray[Any]
P = ParamSpec("P")
T = TypeVar("T")
# What SB3 is given instead of observations that an array has been handed already. SB3 copies it and assigns the copy to
# a row of the array, which recognises it by its dtype: SB3 decides when and where, and no observation is copied.
PLACEHOLDER = np.empty(0, [("known_already", "V1")])


class ObservationArray(ca.CompressedArray):
    """Compressed observations; indexed by arrays, it returns plain arrays."""

    # What the next placeholder stands for: items of this array, or its partner and items of both.
    known: tuple[Any, ...] | None = None

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(value) is not np.ndarray or value.dtype is not PLACEHOLDER.dtype:
            super().__setitem__(key, value)
        elif self.known is not None:  # else the partner, whose placeholder came first, has written them
            known, self.known = self.known, None
            if len(known) == 1:
                super().__setitem__(key, known[0])
            else:
                partner, items, others = known
                ca.write_pair(self, partner, key, items, others)

    def __getitem__(self, key: Any) -> Any:
        reads = _current.get()
        parts = None if reads is None else batch_key(key, len(self.grid_shape))
        if reads is None or parts is None:
            return super().__getitem__(key)
        # SB3 writes [rows, envs, :] where it reads whole transitions, and leaves the slice out where it reads goals.
        return reads.decode(self, parts, is_pair=type(key) is tuple and len(key) > len(parts))


Pairs = Sequence[tuple[ObservationArray, ObservationArray]]


class SampleScope:
    """The reads of one sample: those of the function that `during` calls.

    Args:
        pairs: Arrays of observations and next observations that share a store.
        device: Where the sample's tensors go.
    """

    def __init__(self, pairs: Pairs, device: torch.device | str) -> None:
        self._pairs, self._device = pairs, torch.device(device)
        self._decoded_ahead: list[tuple[ObservationArray, list[bytes], Array]] = []
        # By their `id`: they are kept alive here, so no other object can get the same one.
        self._decoded: dict[int, Array] = {}
        self._given: set[int] = set()

    def during(self, sample: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function that samples, with these reads as the current ones, and returns its result.

        It runs in a context of its own, which ends with the call: an interrupt cannot leave them current, as it could
        if Python code had to reset them.
        """

        def run() -> T:
            _current.set(self)
            return sample(*args, **kwargs)

        return copy_context().run(run)

    def decode(self, array: ObservationArray, parts: tuple[Array, ...], *, is_pair: bool) -> Array:
        """Returns the items at `parts`, and decodes those of the other array of a pair, too, which is read next."""
        which = [part.tobytes() for part in parts]
        for i, (owner, known, items) in enumerate(self._decoded_ahead):
            if owner is array and known == which and items.shape[0] == len(parts[0]):
                del self._decoded_ahead[i]
                return items
        partner = self._partner(array) if is_pair else None
        if partner is None:
            return self._note(array.read(parts, self.memory_for(array, parts)))
        first, second = self.memory_for(array, parts), self.memory_for(array, parts)
        out = None if first is None or second is None else (first, second)
        items, others = ca.read_pair(array, partner, parts, out)
        self._decoded_ahead.append((partner, which, self._note(others)))
        return self._note(items)

    def take_over(self, array: Array) -> torch.Tensor | None:
        """Returns a tensor on an array that was decoded here, a copy if asked again; None for any other array."""
        number = id(array)
        if number not in self._decoded:
            return None
        tensor = torch.from_numpy(array)
        if number in self._given:
            tensor = tensor.clone()
        self._given.add(number)
        return tensor.to(self._device, non_blocking=self._device.type == "cuda")  # from pinned memory only

    def _partner(self, array: ObservationArray) -> ObservationArray | None:
        for first, second in self._pairs:
            if array is first or array is second:
                return second if array is first else first
        return None

    def _note(self, decoded: Array) -> Array:
        self._decoded[id(decoded)] = decoded
        return decoded

    def memory_for(self, array: ObservationArray, parts: tuple[Array, ...]) -> Array | None:
        """Returns pinned memory to decode into if the sample goes to a GPU, else None for any memory.

        Copies from pinned memory are asynchronous, and torch does not reuse it before they are done.
        """
        if self._device.type != "cuda":
            return None
        shape = np.broadcast_shapes(*(part.shape for part in parts)) + array.item_shape
        like = torch.from_numpy(np.empty(0, array.dtype)).dtype
        memory: Array = torch.empty(shape, dtype=like, pin_memory=True).numpy()
        return memory


_current: ContextVar[SampleScope | None] = ContextVar("reads", default=None)


def current() -> SampleScope | None:
    """Returns the reads of the sample that this thread is in the middle of, or None."""
    return _current.get()


def batch_key(key: Any, axes: int) -> tuple[Array, ...] | None:
    """Returns the arrays of a key that picks whole items by an array of integers for each axis; else None."""
    parts = key if type(key) is tuple else (key,)
    if len(parts) == axes + 1 and type(parts[-1]) is slice and parts[-1] == slice(None):
        parts = parts[:-1]
    if len(parts) != axes:
        return None
    for part in parts:
        if type(part) is not np.ndarray or part.dtype.kind not in "iu" or not part.ndim:
            return None
    return parts
