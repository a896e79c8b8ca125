"""What kind of file something is, by how it begins and not by what it is called."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from compressed_array._array.file import MAGIC
from compressed_array._cli.failures import DataError, UsageError
from compressed_array.recording._file import MAGIC as RECORDING_MAGIC

VIDEOS = (".avi", ".gif", ".mkv", ".mov", ".mp4", ".webm")
PICKLES = (".pickle", ".pkl")
# The end of an archive says how many entries it has; where they are too many for that, a second end does.
END, ENTRIES_AT, ENTRIES, MANY = b"PK\5\6", 10, struct.Struct("<H"), 0xFFFF
MANY_END, MANY_ENTRIES_AT, MANY_ENTRIES = b"PK\6\6", 32, struct.Struct("<Q")
READ_AT_ONCE = 2**20  # bytes of an entry that are read at a time
MOST_END = 2**16 + 200  # bytes from there on, with a comment as long as can be
# What Python raises while it reads an archive that is damaged.
DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    IndexError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    struct.error,
)


class Kind(StrEnum):
    """A kind of file, as a person would call it."""

    ARRAY = "compressed array"
    NPY = ".npy file"
    NPZ = ".npz file"
    PICKLE = "pickle"
    RECORDING = "recording"
    STATE = "state that torch has saved"
    VIDEO = "video"


def kind_of(path: Path) -> Kind:
    """Returns the kind of a file that is there; raises if it is not, or nothing that is known here."""
    if not path.exists():
        raise UsageError(f"{path}: there is no such file")
    if path.is_dir():
        raise UsageError(f"{path}: this is a folder; give a file")
    with path.open("rb") as file:
        start = file.read(16)
    if not start:
        raise DataError(f"{path}: the file is empty")
    if start.startswith(MAGIC[:-1]):
        return Kind.ARRAY
    if start.startswith(RECORDING_MAGIC[:-1]):
        return Kind.RECORDING
    if start.startswith(b"\x93NUMPY"):
        return Kind.NPY
    if path.suffix.lower() in VIDEOS:
        return Kind.VIDEO
    if start.startswith(b"PK"):
        return _kind_of_zip(path)
    if start[0] == 0x80 and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return Kind.PICKLE
    hint = {".ca": "a saved compressed array", ".npy": "an array of numpy", ".npz": "arrays of numpy"}
    expected = hint.get(path.suffix.lower(), "a pickle" if path.suffix.lower() in PICKLES else "")
    if expected:
        raise DataError(f"{path}: this is not {expected}, whatever its name says")
    raise DataError(f"{path}: unknown format; give a .npy, .npz or .ca file, a video, a recording, or a saved buffer")


def check_archive(path: Path) -> bool:
    """Returns whether an archive has checksums, after checking them; raises if what is in it was changed.

    Neither torch nor numpy checks them all, and torch can be told to write none. Python's `zipfile` does not check that
    the list of what is in an archive is whole.
    """
    with _opened(path) as archive:
        entries = archive.infolist()
        if len(entries) != _entries_said(path):
            raise DataError(f"{path}: the archive was changed: its list of contents is not whole")
        if not any(entry.CRC for entry in entries):
            return False
        for entry in entries:  # not by name, as `testzip` does: two may have got the same one
            with archive.open(entry) as part:
                while part.read(READ_AT_ONCE):  # to the end, where its checksum is compared
                    pass
    return True


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Opens an archive. What a damaged one raises becomes an error that says so."""
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                yield archive
        except DAMAGES as error:
            raise DataError(f"{path}: the archive was changed or cut short ({error})") from None


def _entries_said(path: Path) -> int:
    """Returns how many entries the end of an archive says that it has."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - MOST_END, 0))
        data = file.read()
    (entries,) = ENTRIES.unpack_from(data, data.rindex(END) + ENTRIES_AT)
    if entries == MANY:
        (entries,) = MANY_ENTRIES.unpack_from(data, data.rindex(MANY_END) + MANY_ENTRIES_AT)
    return int(entries)


def _kind_of_zip(path: Path) -> Kind:
    with _opened(path) as archive:
        names = archive.namelist()
    if names and all(name.endswith(".npy") for name in names):
        return Kind.NPZ
    if any(name.endswith("/data.pkl") for name in names):
        return Kind.STATE
    raise DataError(f"{path}: an archive, but neither of numpy's arrays nor saved by torch")
