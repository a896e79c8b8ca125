"""`save` and `load`: a compressed array as one file.

The file is a magic number, the length and checksum of a JSON header, the header, and sections of numbers and
payloads whose places, sizes and checksums the header gives. There is no pickle in it and nothing is evaluated. Every
byte is under a checksum and every size is checked against the file's before memory is asked for, so that a damaged
file is an error and nothing else. A new file takes the old one's place in one step.
"""

from __future__ import annotations

import os
import zlib
from contextlib import nullcontext
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from compressed_array._array.array import CompressedArray
from compressed_array._array.pickling import State, rebuild, take
from compressed_array._heap import MAX_PAYLOAD
from compressed_array._runtime.headers import (
    check_sizes,
    describe_dtype,
    described_dtype,
    errors_of_file,
    is_count,
    read_header,
    write_header,
)
from compressed_array._runtime.replacing import replacing
from compressed_array._stores.exports import KINDS, StoreKind
from compressed_array.codecs._description import describe, described
from compressed_array.errors import CorruptFileError

MAGIC = b"\x93CARRAY1"
KIND = "compressed array"


def sections_of(store: str) -> dict[str, str]:
    """Returns the sections that a file of such a store has, in their order, with the dtype of each."""
    return {"cells": "<u4", **KINDS[store].SECTIONS}  # which record each cell holds, and what the store needs


def save(path: str | os.PathLike[str] | BinaryIO, array: CompressedArray) -> None:
    """Writes an array to a file, as compressed as it is.

    Args:
        path: The name of a file, which is replaced once all is written; or an open binary file, which is written to
            from where it is, and holds nothing else behind that.
        array: The array, or a view of one, of which only its own items are written.

    >>> import io, numpy as np, compressed_array as ca
    >>> file = io.BytesIO()
    >>> ca.save(file, ca.compress(np.zeros((300, 84, 84), np.uint8)))
    >>> len(file.getvalue()) < 50_000
    True
    """
    state = take(array)
    records = state.records
    kind = KINDS[records.kind]
    fields, sections = kind.describe(records)
    sections["cells"] = state.cells.reshape(-1)
    packed = {name: np.ascontiguousarray(sections[name], dtype) for name, dtype in sections_of(records.kind).items()}
    header = {
        "store": records.kind,
        "shape": state.cells.shape,
        "item_shape": state.item_shape,
        "dtype": describe_dtype(state.dtype),
        "codecs": [describe(codec) for codec in records.codecs],
        **fields,
        "sections": {name: {"nbytes": part.nbytes, "crc32": zlib.crc32(part.data)} for name, part in packed.items()},
    }
    with replacing(path) if isinstance(path, (str, os.PathLike)) else nullcontext(path) as file:
        write_header(file, MAGIC, header)
        for part in packed.values():
            file.write(part.data)


def load(path: str | os.PathLike[str] | BinaryIO) -> CompressedArray:
    """Returns the array that was saved to a file; raises `CorruptFileError` for one that was changed or cut short.

    Args:
        path: The name of a file, or a binary file that is open for reading and can be sought in.

    >>> import tempfile, numpy as np, compressed_array as ca
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ca.save(folder + "/frames.ca", ca.compress(np.full((300, 84, 84), 7, np.uint8)))
    ...     frames = ca.load(folder + "/frames.ca")
    >>> frames.shape, int(frames[299].min())
    ((300, 84, 84), 7)
    """
    with (
        Path(path).open("rb") if isinstance(path, (str, os.PathLike)) else nullcontext(path) as file,
        errors_of_file(str(getattr(file, "name", "the file")), KIND),
    ):
        header = read_header(file, MAGIC, KIND)
        store = header.get("store", "cells")
        sections = _read_sections(file, sections_of(store), header["sections"])
        state = _check(KINDS[store], header, sections)
    return rebuild(CompressedArray, state)


def _read_sections(file: BinaryIO, names: dict[str, str], said: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    sizes = {name: said[name]["nbytes"] for name in names}
    check_sizes(file, list(sizes.values()))
    sections = {}
    for name, dtype in names.items():
        raw = file.read(sizes[name])
        if zlib.crc32(raw) != said[name]["crc32"]:
            raise CorruptFileError(f"the section {name!r} was changed")
        sections[name] = np.frombuffer(raw, dtype)
    return sections


def _check(kind: type[StoreKind], header: dict[str, Any], sections: dict[str, npt.NDArray[Any]]) -> State:
    """Returns the state that a header and its sections describe; raises if they contradict each other."""
    shape, item_shape = tuple(header["shape"]), tuple(header["item_shape"])
    dtype = described_dtype(header["dtype"])
    codecs = [described(description) for description in header["codecs"]]
    cells = sections.pop("cells")
    nbytes = prod(item_shape) * dtype.itemsize
    if not all(map(is_count, (*shape, *item_shape))) or prod(shape) != len(cells) or nbytes > MAX_PAYLOAD:
        raise CorruptFileError("the parts of the file contradict each other")
    np.broadcast_to(np.empty((), dtype), (*shape, *item_shape))  # raises where numpy has no such array
    records = kind.from_file(header, sections, codecs, item_shape, dtype, cells)
    return State(item_shape, dtype, cells.reshape(shape), records)
