"""`python -m compressed_array`, and the program `compressed-array`: if its dependencies are installed."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module

from compressed_array._cli import INTERRUPTED


def main() -> None:
    """Runs the command line; without the extra `cli`, says how to install it and exits with 2."""
    code = _exit_code()
    if code == INTERRUPTED:
        # A compile that was begun goes on in a thread, and an orderly end of the process would wait for it.
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def _exit_code() -> int:
    try:
        for library in ("rich", "typer"):
            import_module(library)
        from compressed_array._cli.app import run
    except KeyboardInterrupt:
        return INTERRUPTED
    except ImportError as error:
        sys.stderr.write(
            f"compressed-array: the command line needs typer and rich ({error}): pip install 'compressed-array[cli]'\n"
        )
        return 2
    return run()


if __name__ == "__main__":
    main()
