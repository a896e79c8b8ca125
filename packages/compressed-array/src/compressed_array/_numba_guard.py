"""Telling numba that a `CompressedArray` is no array it can compile for."""

from __future__ import annotations

from typing import Any


def refuse_in_numba(cls: type) -> None:
    """Make numba refuse the class. By itself it would take the logical dtype and read the table's memory by it."""
    from numba.extending import typeof_impl

    def refuse(value: Any, context: Any) -> Any:
        raise TypeError("numba cannot work on a compressed array; pass it a.read()")

    typeof_impl.register(cls)(refuse)
