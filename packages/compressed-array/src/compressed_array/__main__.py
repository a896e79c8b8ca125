"""`python -m compressed_array`, and the program `compressed-array`: the command line, if what it stands on is there."""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> None:
    """Run the command line; without the extra `cli`, say how to install it and exit with 2."""
    try:
        for library in ("rich", "typer"):
            import_module(library)
        from compressed_array._cli.app import run
    except KeyboardInterrupt:
        sys.exit(130)
    except ImportError as error:
        sys.stderr.write(
            f"compressed-array: the command line needs typer and rich ({error}): pip install 'compressed-array[cli]'\n"
        )
        sys.exit(2)
    sys.exit(run())


if __name__ == "__main__":
    main()
