"""Makes the saved recordings that every later version has to load. Never overwrites one: a new format is a new file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from compressed_array.recording import BaseRecordBuffer, CompressedRecordBuffer, FramelessRecordBuffer, RecordBuffer

HERE = Path(__file__).parent
SIZE, ENDS = 40, (9, 29, 49)
KINDS: dict[str, type[BaseRecordBuffer]] = {
    "plain": RecordBuffer,
    "compressed": CompressedRecordBuffer,
    "frameless": FramelessRecordBuffer,
}


def expected() -> list[tuple[Any, float, Any, dict[str, Any]]]:
    """What was recorded into a ring of `SIZE`: a dot that goes its way, in episodes that end after the steps `ENDS`."""
    steps = []
    for i in range(60):
        frame = np.zeros((8, 10), np.uint8)
        frame[i % 8, i % 10] = i
        steps.append(
            (frame, i / 4, np.array([i, -i], "<f4"), {"lives": np.uint8(i % 3), "name": np.array("xy", "<U3")})
        )
    return steps


if __name__ == "__main__":
    # Run where zstandard is not installed, so that every environment can load what this makes.
    for kind, cls in KINDS.items():
        path = HERE / f"format-1-{kind}.rec"
        if not path.exists():
            recording = cls(SIZE)
            for i, step in enumerate(expected()):
                recording.add(*step, done=i in ENDS)
            recording.save(path)
