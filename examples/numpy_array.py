"""A compressed array in place of a numpy one: fill it, index it, compute on it, save it.

    pip install -e packages/compressed-array
    python -m examples.numpy_array
    python -m examples.numpy_array --smoke    # fewer pictures

A second, and numpy is all that it needs. It fails unless everything is as with the plain array, in less than a
twentieth of its bytes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import compressed_array as ca


def moving_square(steps: int) -> np.ndarray:
    """A bright square that crosses a dark picture: (steps, 84, 84)."""
    pictures = np.zeros((steps, 84, 84), np.uint8)
    for t in range(steps):
        pictures[t, 30:40, t % 74 : t % 74 + 10] = 200
    return pictures


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--smoke", action="store_true", help="fewer pictures")
    pictures = moving_square(200 if options.parse_args().smoke else 1_000)

    # item_ndim=2: the last two axes are the item, the unit of compression; the axis before them is the grid.
    ring = ca.zeros(pictures.shape, pictures.dtype, item_ndim=2, codec="gzip")
    ring[:] = pictures
    print(ring)

    which = np.array([3, 199, -2])
    assert np.array_equal(ring[which], pictures[which])
    assert np.array_equal(ring[10:20, 5, ::2], pictures[10:20, 5, ::2])
    assert ring.mean() == pictures.mean()
    assert ring.nbytes == pictures.nbytes
    assert ring.nbytes_stored < pictures.nbytes / 20

    ring[7, :4] = 9
    pictures[7, :4] = 9
    assert np.array_equal(ring[7], pictures[7])

    try:
        ring[0] = np.full((84, 84), 300)
    except ValueError as error:
        print(f"refused: {error}")
    else:
        raise AssertionError("300 does not fit a uint8")

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "ring")
        ca.save(file, ring)
        again = ca.load(file)
    assert np.array_equal(again[which], pictures[which])
    print(f"{ring.nbytes:,} bytes of pictures in {ring.nbytes_stored:,}")


if __name__ == "__main__":
    main()
