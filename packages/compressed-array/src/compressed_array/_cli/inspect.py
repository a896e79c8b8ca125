"""`compressed-array inspect`: what a file holds, and what its bytes are used for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import compressed_array as ca
from compressed_array._cli.composition import bytes_by_part, described
from compressed_array._cli.failures import DataError, UsageError, check_folder_of
from compressed_array._cli.output import AsJson, counted, say, say_json, say_table
from compressed_array._cli.png import ALL_CHANNELS, write_strip
from compressed_array._cli.saved import Saved, SavedFile, Trust, open_saved, plain
from compressed_array.recording import BaseRecordBuffer
from compressed_array.usage import PLAIN, MemoryUsage, size, times

FRAMES = 8  # in a strip
GRID_NDIM = 2  # of the arrays in a buffer: steps and environments


def inspect(
    file: SavedFile,
    trust: Trust = False,
    frames: Annotated[
        Path | None, typer.Option("--frames", metavar="STRIP.png", help=f"Write a picture of {FRAMES} items, decoded.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Shows what a saved array, recording or buffer holds."""
    if frames is not None:
        _check_strip(frames, file)
    saved = open_saved(file, trust=trust)
    arrays = {name: described(array, GRID_NDIM if saved.usage else 1) for name, array in saved.arrays.items()}
    parts = {key: bytes_by_part([saved.arrays[name] for name in names]) for key, names in saved.keys.items()}
    strip = None if frames is None else _strip(frames, saved)
    file_bytes = file.stat().st_size
    if as_json:
        answer = {"file": str(file), "kind": str(saved.kind), "file_bytes": file_bytes, "arrays": arrays}
        answer |= {"bytes_by_part": parts, "buffer": None if saved.usage is None else _usage(saved.usage)}
        answer["recording"] = None if saved.recording is None else _steps(saved.recording)
        say_json(answer | {"frames": strip})
        return
    say(f"{file.name}: {saved.kind}, {size(file_bytes)}", "bold")
    if saved.recording is not None:
        _show_steps(_steps(saved.recording))
    if saved.usage is None and "" not in arrays:
        _show_table(arrays)
    else:
        for name, about in arrays.items():
            _show_array(name, about, alone=saved.usage is None)
    if saved.usage is not None:
        _show_buffer(saved.usage)
    rows = [
        (key or ("observations" if saved.usage else "items"), *(size(n) for n in part.values()))
        for key, part in parts.items()
        if arrays[saved.keys[key][0]]["codec"]
    ]
    if rows:
        say()
        say_table(("bytes of", "payloads", "tables", "references"), rows)
    if frames is not None and strip is not None:
        items = ("items " if len(strip["items"]) > 1 else "item ") + ", ".join(map(str, strip["items"]))
        say(f"\n{frames.name}: {strip['width']} x {strip['height']}, {items}")
        if strip["shown"] != ALL_CHANNELS:
            say(f"  of each {strip['shown']}")


def _check_strip(strip: Path, file: Path) -> None:
    """Raises where a picture would not be one by its name, or would be written over what it is of."""
    if strip.suffix.lower() != ".png":
        raise UsageError(f"{strip}: the picture is a PNG; give it a name that ends in .png")
    check_folder_of(strip)
    if strip.exists() and file.exists() and strip.samefile(file):
        raise UsageError(f"{strip}: this is the file that is inspected; give the picture another name")


def _show_array(name: str, about: dict[str, Any], *, alone: bool) -> None:
    if name:
        say(f"\n{name}", "bold")
    shape, item_shape = tuple(about["shape"]), tuple(about["item_shape"])
    say(f"  shape   {shape} {about['dtype']}")
    written = "" if about["written"] is None else f", {about['written']:,} written"
    say(f"  items   {about['items']:,} of {item_shape}{written}")
    say(f"  codec   {about['codec'] or 'none, a plain array'}")
    if not alone:  # several share a store, and the buffer says what they hold
        return
    if about["codec"]:
        held = f"{size(about['nbytes'])} in {size(about['nbytes_stored'])}"
        say(f"  memory  {held}, {times(about['ratio'])}")
    else:
        say(f"  memory  {size(about['nbytes'])}")


def _show_buffer(usage: MemoryUsage) -> None:
    say(f"\n{usage.transitions:,} of {counted(usage.capacity, 'transition')}", "bold")
    rows = []
    for name, key in usage.keys.items():
        # A plain array is as large from the start as it will ever be, in a plain buffer as well.
        figures = ("", "") if key.codec == PLAIN else (f"{key.ratio:,.1f}x", f"{key.shared:,}")
        rows.append((name or "observations", key.codec, size(key.raw), size(key.stored), *figures))
    rows.append(("everything else", PLAIN, "", size(usage.rest), "", ""))
    say_table(("key", "codec", "items", "held", "smaller", "shared"), rows, left=2)


def _usage(usage: MemoryUsage) -> dict[str, Any]:
    keys = {
        name: {"raw": k.raw, "stored": k.stored, "ratio": k.ratio, "shared": k.shared, "codec": k.codec}
        for name, k in usage.keys.items()
    }
    return {"transitions": usage.transitions, "capacity": usage.capacity, "keys": keys, "rest": usage.rest}


def _steps(recording: BaseRecordBuffer) -> dict[str, Any]:
    episodes = [
        {"number": one.number, "steps": len(one), "has_start": one.has_start, "has_end": one.has_end}
        for one in recording.episodes()
    ]
    counts = {"steps": recording.steps, "held": len(recording), "size": recording.size}
    return {**counts, "episodes": episodes}


def _show_steps(steps: dict[str, Any]) -> None:
    ring = "" if steps["size"] is None else f" in a ring of {steps['size']:,}"
    gone = "" if steps["held"] == steps["steps"] else f", the last of {steps['steps']:,}"
    whole = sum(episode["has_start"] and episode["has_end"] for episode in steps["episodes"])
    episodes = counted(len(steps["episodes"]), "episode")
    say(f"{counted(steps['held'], 'step')}{ring}{gone}; {episodes}, {whole:,} whole\n")


def _show_table(arrays: dict[str, Any]) -> None:
    """Shows a line for each of several arrays."""
    rows = [
        (
            name,
            f"{about['items']:,}",
            str(tuple(about["item_shape"])),
            about["dtype"],
            about["codec"] or PLAIN,
            size(about["nbytes"]),
            size(about["nbytes_stored"]),
            f"{about['ratio']:,.1f}x" if about["codec"] else "",
        )
        for name, about in arrays.items()
    ]
    say_table(("array", "items", "of shape", "dtype", "codec", "bytes", "held", "smaller"), rows, left=5)


def _strip(path: Path, saved: Saved) -> dict[str, Any]:
    """Writes items from all over the first array that has pictures; of a ring, in the order of their time."""
    grid_ndim = GRID_NDIM if saved.usage else 1
    arrays = sorted(
        saved.arrays.values(), key=lambda array: len(getattr(array, "item_shape", array.shape[grid_ndim:])) < 2
    )
    if saved.recording is not None and saved.recording.has_frames:
        arrays = [saved.recording.frames]
    for array in arrays:
        grid = tuple(getattr(array, "grid_shape", array.shape[:grid_ndim]))
        written = np.arange(int(np.prod(grid, dtype=np.int64)))
        if isinstance(array, ca.CompressedArray):
            written = np.flatnonzero(array.cells.numbers)
        if len(written):
            which = written[np.unique(np.linspace(0, len(written) - 1, FRAMES).astype(int))]
            places = [tuple(int(n) for n in np.unravel_index(place, grid)) for place in which]
            items = [plain(array, place if place else ...) for place in places]
            return {"file": str(path), **write_strip(path, items)._asdict(), "items": which.tolist()}
    raise DataError("there are no items to show")
