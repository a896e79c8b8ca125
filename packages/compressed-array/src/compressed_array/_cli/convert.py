"""`compressed-array convert`: the same array in another format, compared bit for bit before it takes its place."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

import numpy as np
import typer
from numpy.lib import format as npy_format

import compressed_array as ca
from compressed_array._cli.failures import DataError, UsageError, check_folder_of
from compressed_array._cli.measured import ItemNdim, asked_codec
from compressed_array._cli.output import AsJson, progress, say, say_json
from compressed_array._cli.sources import Part, read_parts
from compressed_array._runtime.chunks import ranges
from compressed_array._runtime.replacing import replacing
from compressed_array.registry import shorthand
from compressed_array.usage import size, times

FORMATS = (".npy", ".npz", ".ca")
UNNAMED = "arr_0"  # what numpy calls an array that was saved without a name


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="FROM", help="A .npy, .npz or .ca file, a recording, a GIF or a video.")
    ],
    target: Annotated[Path, typer.Argument(metavar="TO", help="A .npy, .npz or .ca file, which is replaced.")],
    codec: Annotated[str, typer.Option(metavar="NAME", help="How to compress a .ca file.")] = "auto",
    item_ndim: ItemNdim = None,
    key: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which array of a .npz, or field of a recording.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Writes an array in another format.

    Nothing is lost: TO is replaced only after it was read back and is equal, bit for bit.
    """
    suffix = target.suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"{target}: the name says no format; it ends in {', '.join(FORMATS)}")
    check_folder_of(target)
    chosen = asked_codec(codec)
    parts = read_parts(source, item_ndim, whole=True)
    if key is not None and suffix != ".npz" and not any(part.name for part in parts):
        raise UsageError(f"{source} holds one array, which has no name: leave --key {key} out")
    if suffix != ".npz" or key is not None or not parts:
        parts = [_one(source, parts, key)]
    named = {part.name or key or UNNAMED: part.array for part in parts}
    part, array = parts[0], parts[0].array
    with progress(f"writing {target.name}", 2, quiet=as_json) as advance, replacing(target) as file:
        if suffix == ".ca":
            array = ca.compress(part.array, item_ndim=part.item_ndim if part.array.ndim else None, codec=chosen)
            ca.save(file, array)
        elif suffix == ".npy":
            _write_npy(file, part.array)
        else:
            _write_npz(file, named)
        file.flush()
        advance()
        for name, of in named.items():
            _compare(of, Path(file.name), suffix, name)
        advance()
    _report(source, target, {part.name: array} if suffix == ".ca" else named, as_json=as_json)


def _one(path: Path, parts: list[Part], key: str | None) -> Part:
    named = [part for part in parts if part.name and part.name == key]
    if named:
        return named[0]
    if len(parts) == 1 and (key is None or not parts[0].name):
        return parts[0]
    names = ", ".join(part.name for part in parts)
    if not names:
        raise UsageError(f"{path} has no arrays")
    raise UsageError(f"{path} has the arrays {names}; say which with --key, or convert all of them to a .npz")


def _read(array: Any, rows: slice) -> Any:
    key = rows if array.ndim else ...
    return array.read(key) if isinstance(array, ca.CompressedArray) else np.asarray(array[key])


def _blocks(array: Any) -> Iterator[slice]:
    rows = len(array) if array.ndim else 1
    return (slice(low, high) for low, high in ranges(rows, array.nbytes // max(rows, 1)))


def _write_npy(file: BinaryIO, array: Any) -> None:
    if array.dtype.names is not None:  # whose names may need a header that numpy alone writes
        npy_format.write_array(file, _read(array, slice(None)), allow_pickle=False)
        return
    header = {"descr": npy_format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    npy_format.write_array_header_1_0(file, header)
    for rows in _blocks(array):
        file.write(np.ascontiguousarray(_read(array, rows)).tobytes())


def _write_npz(file: BinaryIO, arrays: dict[str, Any]) -> None:
    # Not by `np.savez_compressed`, which takes arrays of some names for arguments of its own.
    deflated = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
    with deflated as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                _write_npy(cast(BinaryIO, entry), array)


def _compare(array: Any, written: Path, suffix: str, name: str) -> None:
    if suffix == ".ca":
        other: Any = ca.load(written)
    else:
        other = np.load(written, mmap_mode="r" if suffix == ".npy" else None, allow_pickle=False)
        other = other[name] if suffix == ".npz" else other
    same = other.shape == array.shape and other.dtype == array.dtype
    if not same or any(_read(other, rows).tobytes() != _read(array, rows).tobytes() for rows in _blocks(array)):
        raise DataError("what was written is not what was read; nothing was replaced")


def _report(source: Path, target: Path, arrays: dict[str, Any], *, as_json: bool) -> None:
    array = next(iter(arrays.values()))
    is_compressed = isinstance(array, ca.CompressedArray) and target.suffix.lower() == ".ca"
    codec = shorthand(array.codec) if is_compressed else None
    nbytes = sum(each.nbytes for each in arrays.values())
    before, after = source.stat().st_size, target.stat().st_size
    if as_json:
        answer: dict[str, Any] = {"from": str(source), "to": str(target)}
        if len(arrays) == 1:
            answer |= {"shape": list(array.shape), "dtype": str(array.dtype)}
        answer["arrays"] = {k: {"shape": list(each.shape), "dtype": str(each.dtype)} for k, each in arrays.items()}
        say_json(answer | {"codec": codec, "nbytes": nbytes, "from_bytes": before, "to_bytes": after})
        return
    what = f"{array.shape} {array.dtype}" if len(arrays) == 1 else ", ".join(arrays)
    how = f" by {codec}" if codec else ""
    say(f"{target.name}: {what}{how}, equal to {source.name}")
    say(f"{size(nbytes)} in a file of {size(after)}, {times(nbytes / max(after, 1))}")
