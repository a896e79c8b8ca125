"""The decoy: what numpy and other C code find where they look for a compressed array's memory, and cannot use.

An ndarray has memory, and C code takes it without asking: `np.asarray(a)`, `f.write(a)`, `rng.random(out=a)`. No record
is in what it finds here. There are references to one object that refuses every operation by name, so that comparing,
sorting, adding up, casting and printing all fail at the first element, with advice. And it is of such a kind that

- nothing writes to it: it is read-only, and numpy cannot be told otherwise;
- nothing takes it for a run of bytes: its strides are not those of one, and its fields are in no order that a buffer
  could be described by;
- nothing copies it, which would make a run of bytes of it: it is larger than any address space, because each element
  pretends to be. The error says so, and the name of a field in it says what to do.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.memory import map_memory
from compressed_array._runtime.types import Bytes
from compressed_array.errors import UnsupportedOperationError

ADVICE = "the items are compressed, and no C code can take them from memory; give it a.read()"

# Together 2**48 bytes, which no process can have; in few elements, since some calls go through them all.
# Two elements have addresses of their own, and are mapped; where a process may have less of that, they are smaller.
TOTAL_BITS, ELEMENT_BITS = 48, (29, 26, 22)


class Refusing:
    """Stands where an item would be. Whatever is done with it raises."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UnsupportedOperationError(ADVICE)

    __repr__ = __str__ = __bytes__ = __format__ = __reduce_ex__ = __array__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __bool__ = __int__ = __float__ = __complex__ = __index__ = _refuse
    __len__ = __iter__ = __contains__ = __getitem__ = __call__ = _refuse
    __neg__ = __pos__ = __abs__ = __invert__ = __round__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __pow__ = __rpow__ = _refuse
    __matmul__ = __rmatmul__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refuse
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse


class ReadOnlyMemory:
    """Shows memory to numpy as read-only, by an object that numpy cannot make writable."""

    def __init__(self, memory: Bytes) -> None:
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__ | {"data": (memory.ctypes.data, True)}


@cache
def decoy_array() -> npt.NDArray[Any]:
    """Returns the read-only array that C code finds instead of any compressed array's memory."""
    for bits in ELEMENT_BITS[:-1]:
        with suppress(MemoryError):
            return _decoy_of(bits)
    return _decoy_of(ELEMENT_BITS[-1])


def _decoy_of(element_bits: int) -> npt.NDArray[Any]:
    refusing, nbytes = Refusing(), 2**element_bits
    # `np.choose(which, a)` takes `len(a)` choices from the decoy, at most 64, and not every numpy checks that it has so
    # many: with 64 on its first axis, all of them are there, and the first one refuses.
    shape = (64, *[2] * (TOTAL_BITS - element_bits - 6))
    # Floats beside the object: numpy casts records of a single field to numbers. Two, which `tolist` makes an array of:
    # Python takes the same object to be equal without asking it, and an array of two has no truth.
    element = np.dtype(
        {
            "names": ["items are compressed", "use a.read()"],
            "formats": ["O", ("f8", (2,))],
            "offsets": [16, 0],
            "itemsize": nbytes,
        }
    )
    # The last axis can be sorted as it lies, where numpy would else copy elements. The others lie across one another
    # in turns, so that no two of them can be made one axis without a copy.
    strides = [24 * (axis % 2) for axis in range(len(shape) - 1)] + [nbytes]
    memory = map_memory(nbytes * 2 + sum(strides[:-1]))
    for place in (0, nbytes):
        cells = memory[place : place + sum(strides[:-1]) + 24].view(np.uint64).reshape(-1, 3)
        cells[:] = *np.full(2, np.nan).view(np.uint64), id(refusing)
    KEPT.append(refusing)
    return np.ndarray(shape, element, np.asarray(ReadOnlyMemory(memory)), strides=strides)


# Keeps the objects alive: the decoy holds their raw addresses, not references.
KEPT: list[Refusing] = []
