"""How files of `save` and recordings begin: a magic number, the length and checksum of a JSON header, and the header.

Nothing in a header is evaluated, and nothing is believed before it was checked: sizes against the file's before memory
is asked for, numbers for being numbers. Whatever is wrong is a `CorruptFileError`, in which `errors_of_file` names
the file.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from compressed_array._runtime.casting import check_dtype
from compressed_array.errors import CorruptFileError, UnknownCodecError, UnsupportedDtypeError

PREFIX = struct.Struct("<8sQI")  # magic, length of the header, its CRC-32
FORMAT = 1
NEWER = "saved in a format this version does not know; upgrade compressed-array"
# What comes up where a header is JSON of another form than ours.
MISFITS = (AttributeError, LookupError, TypeError, ValueError, OverflowError, RecursionError)


def write_header(file: BinaryIO, magic: bytes, header: dict[str, Any]) -> None:
    """Writes the beginning of a file."""
    text = json.dumps({"format": FORMAT, **header}).encode()
    file.write(PREFIX.pack(magic, len(text), zlib.crc32(text)))
    file.write(text)


def read_header(file: BinaryIO, magic: bytes, kind: str) -> dict[str, Any]:
    """Returns the header of a file of some kind, and leaves the file where the header ends.

    The last byte of a magic number is the version of the format.
    """
    start = file.read(PREFIX.size)
    if len(start) < PREFIX.size or not start.startswith(magic[:-1]):
        raise CorruptFileError(f"not a saved {kind}")
    found, length, checksum = PREFIX.unpack(start)
    if found != magic:
        raise CorruptFileError(NEWER)
    if length > bytes_left(file):
        raise CorruptFileError("cut short")
    text = file.read(length)
    if len(text) < length or zlib.crc32(text) != checksum:
        raise CorruptFileError("the header was changed or cut short")
    header: dict[str, Any] = json.loads(text)
    if not is_count(header["format"]) or header["format"] != FORMAT:
        raise CorruptFileError(NEWER)
    return header


@contextmanager
def errors_of_file(name: str, kind: str) -> Iterator[None]:
    """Has errors say which file they are about and what it should hold; an unknown codec is no fault of the file's."""
    try:
        yield
    except UnknownCodecError:
        raise
    except CorruptFileError as error:
        raise CorruptFileError(f"{name}: {error}") from None
    except MISFITS as error:
        raise CorruptFileError(f"{name}: the header does not describe a {kind} ({error})") from error


def check_sizes(file: BinaryIO, sizes: list[Any]) -> None:
    """Raises `CorruptFileError` unless parts of these sizes are all that is left of a file."""
    # Each by itself, too: what is less than nothing would make up for one that is larger than the file.
    if not all(map(is_count, sizes)) or sum(sizes) != bytes_left(file):
        raise CorruptFileError("cut short, or something was added to it")


def bytes_left(file: BinaryIO) -> int:
    """Returns how many bytes of a file are left to read."""
    here = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(here)
    return end - here


def is_count(number: Any) -> bool:
    """Whether something out of JSON is a number of things; `true` is not."""
    return type(number) is int and number >= 0


def describe_dtype(dtype: np.dtype[Any]) -> Any:
    """Returns a dtype as a .npy file tells it; raises if it would not be the same when it is read again."""
    try:
        description = npy_format.dtype_to_descr(dtype)
    except ValueError as error:
        raise UnsupportedDtypeError(f"dtype {dtype} cannot be written down in a file: {error}") from error
    if npy_format.descr_to_dtype(description) != dtype:  # one of another library, of which numpy tells the size alone
        raise UnsupportedDtypeError(f"dtype {dtype} cannot be written down in a file; convert it to one of numpy's own")
    return description


def described_dtype(description: Any) -> np.dtype[Any]:
    """Returns the dtype that a header describes."""
    return check_dtype(npy_format.descr_to_dtype(_with_tuples(description)))


def _with_tuples(description: Any) -> Any:
    """Returns a dtype's description as it was before JSON made lists of its tuples."""
    if isinstance(description, str):
        return description
    return [
        (tuple(name) if isinstance(name, list) else name, _with_tuples(of), *map(tuple, shape))
        for name, of, *shape in description
    ]
