"""A recording as one file: counts and columns, without pickle, and with nothing in it that is evaluated.

The file is a magic number, the length and checksum of a JSON header, the header, and the columns one after the other,
whose names, dtypes, shapes, sizes and checksums the header gives. Compressed frames lie there as
`compressed_array.save` writes them. Every size is checked against the file's before memory is asked for.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from compressed_array._array.file import load, save
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
from compressed_array.errors import CorruptFileError
from compressed_array.recording._columns import BLOCK, OWN, Column, CompressedColumn, PlainColumn
from compressed_array.recording._timeline import Timeline

MAGIC = b"\x93CARREC1"
KIND = "recording"


class Parts(NamedTuple):
    """What a recording is made of."""

    kind: str
    timeline: Timeline
    columns: dict[str, Column]


def save_parts(path: str | os.PathLike[str], kind: str, timeline: Timeline, columns: Mapping[str, Column]) -> None:
    """Writes a recording to a file; one of that name is replaced once all is written."""
    described, sections = [], []
    for name in sorted(columns, key=lambda name: OWN.index(name) if name in OWN else len(OWN)):
        column = columns[name]
        section, words = _packed(column, timeline.rows_used)
        described.append({"name": name, **words, "nbytes": section.nbytes, "crc32": zlib.crc32(section)})
        sections.append(section)
    counts = {"oldest": timeline.oldest, "steps": timeline.steps, "starts": timeline.starts, "number": timeline.number}
    with replacing(path) as file:
        write_header(file, MAGIC, {"kind": kind, "size": timeline.size, **counts, "columns": described})
        for section in sections:
            file.write(section)


def load_parts(
    path: str | os.PathLike[str],
    kinds: Mapping[str, bool],
    checked_names: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> Parts:
    """Returns what is in a file, if it is a recording of one of these kinds, which have frames or have none."""
    with Path(path).open("rb") as file, errors_of_file(os.fspath(path), KIND):
        header = read_header(file, MAGIC, KIND)
        timeline = _read_timeline(header)
        _require(header["kind"] in kinds, "it is a recording of no kind that is known")
        described = header["columns"]
        names = [words["name"] for words in described]
        own = {name for name in OWN if name != "frames" or kinds[header["kind"]]}
        # In any order: at first, files had columns in the order in which they were made.
        _require(own <= set(names) and len(set(names)) == len(names), "it does not have the columns it should")
        checked_names({name: None for name in names if name not in own})
        check_sizes(file, [words["nbytes"] for words in described])
        columns = {words["name"]: _read_column(file, words, timeline.rows_used) for words in described}
        compressed = [name for name, column in columns.items() if isinstance(column, CompressedColumn)]
        _require(compressed == ["frames"] * (header["kind"] == "compressed"), "mixed up")
    return Parts(header["kind"], timeline, columns)


def _packed(column: Column, rows: int) -> tuple[memoryview, dict[str, Any]]:
    """Returns the bytes of the first rows, and what the header says of them."""
    if isinstance(column, CompressedColumn):
        file = io.BytesIO()
        save(file, column.array[:rows])
        return file.getbuffer(), {"is_compressed": True}
    array = np.ascontiguousarray(column.array[:rows])
    words = {"is_compressed": False, "dtype": describe_dtype(array.dtype), "shape": array.shape}
    return _bytes_of(array), words


def _read_timeline(header: dict[str, Any]) -> Timeline:
    _require(header["size"] is None or is_count(header["size"]), "a size that is none")
    timeline = Timeline(header["size"])
    oldest, steps, starts, number = (header[name] for name in ("oldest", "steps", "starts", "number"))
    _require(all(map(is_count, (oldest, steps, number, *starts))) and steps > 0, "counts that are none")
    _require(starts == sorted(set(starts)) and starts[0] <= oldest <= steps >= starts[-1], "episodes out of order")
    _require(steps - oldest <= (steps if timeline.size is None else timeline.size), "more steps than it holds")
    _require(timeline.size is not None or oldest == 0, "steps are missing")
    timeline.oldest, timeline.steps, timeline.starts, timeline.number = oldest, steps, list(starts), number
    return timeline


def _read_column(file: BinaryIO, words: dict[str, Any], rows: int) -> Column:
    nbytes, checksum = words["nbytes"], words["crc32"]
    if words["is_compressed"] is True:
        raw = file.read(nbytes)
        _require(zlib.crc32(raw) == checksum, f"the column {words['name']!r} was changed")
        frames = load(io.BytesIO(raw))
        _require(frames.grid_shape == (rows,), "frames that are too few or too many")
        return CompressedColumn(frames)
    dtype, shape = described_dtype(words["dtype"]), tuple(words["shape"])
    _require(all(map(is_count, shape)) and shape[0] == rows, "rows that are too few or too many")
    _require(prod(shape) * dtype.itemsize == nbytes, f"the column {words['name']!r} has another size than it says")
    array = np.empty(shape, dtype)
    into, seen = _bytes_of(array), 0
    for low in range(0, nbytes, BLOCK):
        raw = file.read(min(BLOCK, nbytes - low))
        into[low : low + len(raw)] = raw
        seen = zlib.crc32(raw, seen)
    _require(seen == checksum, f"the column {words['name']!r} was changed")
    return PlainColumn(array)


def _bytes_of(array: npt.NDArray[Any]) -> memoryview:
    """Returns the memory of an array, which may hold numbers that memoryviews do not know."""
    if not array.nbytes:
        return memoryview(b"")
    view: Any = array.reshape(-1).view(np.uint8)
    return memoryview(view)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CorruptFileError(otherwise)
