"""`compressed-array verify`: whether what is in a file can be decoded and is what was saved, as far as one can know.

"Sound" is said only of a file all of whose bytes are under checksums; of any other, what was checked and what was not.
"""

from __future__ import annotations

import typer

from compressed_array._cli.failures import DATA, FOUND, DataError
from compressed_array._cli.output import AsJson, complain, counted, progress, say, say_json, with_article
from compressed_array._cli.saved import Saved, SavedFile, Trust, blocks, open_saved
from compressed_array.usage import size


def verify(file: SavedFile, trust: Trust = False, as_json: AsJson = False) -> None:
    """Decodes all of a file, checks its checksums, and says what has none.

    The exit code is 1 if something is wrong.
    """
    try:
        saved = open_saved(file, trust=trust)
        decoded = 0
        total = sum(array.nbytes for array in saved.checked.values())
        with progress(f"decoding {file.name}", total, quiet=as_json) as advance:
            for array in saved.checked.values():
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
        answer |= {"arrays": len(saved.checked) + len(saved.unchecked), "decoded_bytes": decoded}
        say_json(answer | {"checksums": _checksums(saved), "unchecked": list(saved.unchecked)})
    elif saved.has_all_checksums:
        several = f"{len(saved.checked):,} arrays, " if len(saved.checked) > 1 else ""
        say(f"{file.name}: sound, {with_article(saved.kind)}, {several}{size(decoded)} decoded")
    else:
        say(f"{file.name}: {with_article(saved.kind)}, in which nothing wrong was found")
        if saved.checked:
            say(f"  {counted(len(saved.checked), 'compressed array')}: every item decodes, {size(decoded)}")
        if saved.unchecked:
            nbytes = size(sum(array.nbytes for array in saved.unchecked.values()))
            say(f"  {counted(len(saved.unchecked), 'plain array')}, {nbytes}: no checksum, a change goes unnoticed")


def _checksums(saved: Saved) -> str:
    """Returns what of a file has checksums, in a word."""
    if saved.has_all_checksums:
        return "all"
    return "items" if saved.checked else "none"
