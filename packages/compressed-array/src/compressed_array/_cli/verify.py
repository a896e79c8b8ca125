"""`compressed-array verify`: whether everything in a file can be decoded, and is what was saved."""

from __future__ import annotations

import typer

from compressed_array._cli.failures import DATA, FOUND, DataError
from compressed_array._cli.output import AsJson, complain, progress, say, say_json
from compressed_array._cli.saved import SavedFile, Trust, blocks, open_saved
from compressed_array.usage import size


def verify(file: SavedFile, trust: Trust = False, as_json: AsJson = False) -> None:
    """Decodes all of a file, and checks its checksums.

    The exit code is 1 if something is wrong.
    """
    try:
        saved = open_saved(file, trust=trust)
        decoded = 0
        total = sum(array.nbytes for array in saved.arrays.values())
        with progress(f"decoding {file.name}", total, quiet=as_json) as advance:
            for array in saved.arrays.values():
                for block in blocks(array):
                    decoded += block.nbytes
                    advance(block.nbytes)
    except (DataError, *FOUND) as error:
        text = str(error) if str(file) in str(error) else f"{file}: {error}"
        if as_json:
            say_json({"file": str(file), "ok": False, "problem": text})
        complain(text)
        raise typer.Exit(DATA) from None
    if as_json:
        answer = {"file": str(file), "ok": True, "kind": str(saved.kind)}
        say_json(answer | {"arrays": len(saved.arrays), "decoded_bytes": decoded})
    else:
        several = f"{len(saved.arrays)} arrays, " if len(saved.arrays) > 1 else ""
        say(f"{file.name}: sound, a {saved.kind}, {several}{size(decoded)} decoded")
