"""`replacing`: a file that takes another one's place in one step, once all of it is written, or not at all.

It is written under a name of its own in the same folder. A process that is killed meanwhile leaves that behind, for the
next one that writes there: the writer holds a lock on it, which ends with the process.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where leftovers stay
    fcntl = None


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Opens a new file to write to, which afterwards is at `path`, or where a link there leads to."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise FileExistsError(errno.EEXIST, "what is there is no file, and not to be replaced by one", str(target))
    # A name that is as long as names may be has no room for more.
    mark = f".compressed-array-{zlib.crc32(os.fsencode(target.name)):08x}-"
    _remove_leftovers(target.parent, mark)
    try:
        temporary, file = _locked_file(target.parent, mark)
    except OSError as error:
        error.filename = str(target)  # the one that was asked for, not the name that it would have had meanwhile
        raise
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, temporary)
            if fcntl is not None:
                temporary.replace(target)  # while it is locked
        if fcntl is None:
            temporary.replace(target)  # which Windows does not do to a file that is open
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _locked_file(folder: Path, mark: str) -> tuple[Path, BinaryIO]:
    while True:
        path = folder / f"{mark}{secrets.token_hex(8)}"
        file = path.open("xb")
        if fcntl is None:
            return path, file
        with suppress(OSError):  # a file system without locks, where nothing is taken for a leftover
            fcntl.flock(file, fcntl.LOCK_EX)
        if path.exists():  # nobody took it for one before it was locked
            return path, file
        file.close()


def _remove_leftovers(folder: Path, mark: str) -> None:
    if fcntl is None:
        return
    for path in list(folder.glob(f"{mark}*")):
        with suppress(OSError), path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while somebody writes to it
            path.unlink()
