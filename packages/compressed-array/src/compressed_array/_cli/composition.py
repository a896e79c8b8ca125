"""Breaks the saved bytes of arrays down into payloads, tables and references."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import compressed_array as ca
from compressed_array._stores.exports import KINDS
from compressed_array.registry import shorthand


def bytes_by_part(arrays: Sequence[Any]) -> dict[str, int]:
    """Returns the bytes of arrays on one store, what they share counted once."""
    first = arrays[0]
    if getattr(first, "store", None) is None:
        return {"payloads": sum(array.nbytes for array in arrays), "tables": 0, "references": 0}
    if isinstance(first, ca.CompressedArray):
        numbers = [array.cells.numbers.reshape(-1) for array in arrays]
        held = np.unique(np.concatenate(numbers))
        with first.store.epochs.writing:
            records, _ = first.store.export(held[held != 0])
        _, sections = KINDS[records.kind].describe(records)
        payloads, references = records.data.nbytes, records.reference_nbytes
        tables = sum(part.nbytes for part in (*sections.values(), *numbers)) - payloads - references
        return {"payloads": payloads, "tables": tables, "references": references}
    # Of a device array, references are frames as any others.
    state = first.state_dict()["store"]
    cells = sum(array.cells.nbytes for array in arrays)
    if "undecided" in state:
        items = state["undecided"]
        return {"payloads": items["items"].nbytes, "tables": items["lanes"].nbytes + cells, "references": 0}
    tables = _nbytes(state["table"].values()) + cells
    return {"payloads": _nbytes(state["heaps"]), "tables": tables, "references": 0}


def described(array: Any, grid_ndim: int = 1) -> dict[str, Any]:
    """Returns what an array is, for JSON; of a plain one, the axes after the first `grid_ndim` are an item's."""
    item_shape = tuple(getattr(array, "item_shape", array.shape[grid_ndim:]))
    grid = tuple(array.shape[: len(array.shape) - len(item_shape)])
    stored = getattr(array, "nbytes_stored", array.nbytes)
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype).removeprefix("torch."),
        "item_shape": list(item_shape),
        "items": int(np.prod(grid, dtype=np.int64)),
        "written": _count_written(array),
        "codec": shorthand(array.codec) if hasattr(array, "codec") else None,
        "nbytes": int(array.nbytes),
        "nbytes_stored": int(stored),
        "ratio": float(array.nbytes / max(stored, 1)),
    }


def _count_written(array: Any) -> int | None:
    if isinstance(array, ca.CompressedArray):
        return int(np.count_nonzero(array.cells.numbers))
    return int(array.count_written()) if hasattr(array, "count_written") else None


def _nbytes(tensors: Iterable[Any]) -> int:
    return sum(0 if part is None else _nbytes(part) if isinstance(part, list) else int(part.nbytes) for part in tensors)
