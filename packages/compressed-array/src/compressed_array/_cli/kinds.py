"""What kind of file something is, by how it begins and not by what it is called."""

from __future__ import annotations

import zipfile
import zlib
from enum import StrEnum
from pathlib import Path

from compressed_array._array.file import MAGIC
from compressed_array._cli.failures import DataError, UsageError
from compressed_array.recording._file import MAGIC as RECORDING_MAGIC

VIDEOS = (".avi", ".gif", ".mkv", ".mov", ".mp4", ".webm")
PICKLES = (".pickle", ".pkl")


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

    Neither torch nor numpy checks them all, and torch can be told to write none.
    """
    try:
        with zipfile.ZipFile(path) as file:
            if not any(entry.CRC for entry in file.infolist()):
                return False
            changed = file.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{path}: the archive was changed or cut short ({error})") from None
    if changed is not None:
        raise DataError(f"{path}: {changed!r} in it was changed: its checksum is another")
    return True


def _kind_of_zip(path: Path) -> Kind:
    try:
        with zipfile.ZipFile(path) as file:
            names = file.namelist()
    except zipfile.BadZipFile:
        raise DataError(f"{path}: the archive was changed or cut short; take it from where it came again") from None
    if names and all(name.endswith(".npy") for name in names):
        return Kind.NPZ
    if any(name.endswith("/data.pkl") for name in names):
        return Kind.STATE
    raise DataError(f"{path}: an archive, but neither of numpy's arrays nor saved by torch")
