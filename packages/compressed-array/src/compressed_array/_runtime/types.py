"""Types of the arrays that go from module to module, and the class by which a compressed array is recognised."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.int64]
Dense = npt.NDArray[Any]


class Compressed:
    """A base of `CompressedArray`, by which modules recognise one that cannot import it."""

    __slots__ = ()


def is_compressed(value: object) -> TypeGuard[Any]:
    """Whether a value is a `CompressedArray`."""
    return isinstance(value, Compressed)
