"""Which exit code an error has: 1 for what is wrong with the data, 2 for what was asked, 130 after Ctrl-C.

Whoever runs a command reads one line on the standard error: what is wrong, and what to do. Errors that nobody has
foreseen are bugs, and keep their traceback.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer

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

DATA, USAGE, INTERRUPTED = 1, 2, 130
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


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """A command that ends with an exit code and one line where it would have ended with an error."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()  # where nobody reads it any more, that is noticed here
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # whoever was reading has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(DATA) from None
        except (UsageError, *ASKED) as error:
            complain(str(error))
            raise typer.Exit(USAGE) from None
        except (DataError, *FOUND) as error:
            complain(str(error))
            raise typer.Exit(DATA) from None
        except (ValueError, UnsupportedOperationError) as error:  # what the library refuses in so many words
            complain(str(error))
            raise typer.Exit(DATA) from None
        except OSError as error:
            complain(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
            raise typer.Exit(DATA) from None
        except MemoryError as error:
            complain(f"there is not enough memory: {error}" if str(error) else "there is not enough memory")
            raise typer.Exit(DATA) from None

    return run
