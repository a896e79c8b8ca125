"""Which exit code an error has: 1 for what is wrong with the data, 2 for what was asked, 130 after Ctrl-C.

A user reads one line on the standard error: what is wrong, and what to do. Errors that are not expected here are
bugs, and keep their traceback.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import typer

from compressed_array._cli import INTERRUPTED
from compressed_array._cli.output import complain
from compressed_array.errors import (
    CodecLevelError,
    CodecUnavailableError,
    CorruptFileError,
    CorruptPayloadError,
    UnknownCodecError,
    UnsupportedDtypeError,
    UnsupportedOperationError,
)

DATA, USAGE = 1, 2
ASKED = (CodecLevelError, CodecUnavailableError, UnknownCodecError)
FOUND = (CorruptFileError, CorruptPayloadError, UnsupportedDtypeError)
P = ParamSpec("P")


class DataError(Exception):
    """Something is wrong with what was given: exit code 1."""


class UsageError(Exception):
    """Something cannot be done as it was asked for: exit code 2."""


class MissingLibraryError(UsageError):
    """An option needs a library that is not installed."""

    def __init__(self, what: str, library: str, install: str) -> None:
        super().__init__(f"{what} needs {library}: pip install {install}")


def check_folder_of(target: Path) -> None:
    """Raises if there is no folder that a file could be written to."""
    if not target.parent.is_dir():
        raise UsageError(f"{target.parent}: there is no such folder")


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Returns a command that ends with an exit code and one line where it would have ended with an error."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
            if sys.stdout is not None:  # as it is where the standard output was closed from the start
                sys.stdout.flush()  # a closed pipe raises here
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the reader of the output has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(DATA) from None
        except (UsageError, *ASKED) as error:
            complain(str(error))
            raise typer.Exit(USAGE) from None
        except (DataError, *FOUND) as error:
            complain(str(error))
            raise typer.Exit(DATA) from None
        except (ValueError, UnsupportedOperationError) as error:  # what the library refuses, with a message for users
            complain(str(error))
            raise typer.Exit(DATA) from None
        except OSError as error:
            complain(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
            raise typer.Exit(DATA) from None
        except MemoryError as error:
            complain(f"there is not enough memory: {error}" if str(error) else "there is not enough memory")
            raise typer.Exit(DATA) from None

    return run
