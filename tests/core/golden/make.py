"""Makes the files and pickles that every later version has to load. Never overwrites one: new formats get new names."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

import compressed_array as ca

HERE = Path(__file__).parent


def expected() -> np.ndarray[Any, Any]:
    """What each file holds: unwritten, equal, noisy and calm items of records with a date, a float and a text."""
    array = np.zeros((5, 3, 40), [("when", "<M8[s]"), ("value", ">f4"), ("name", "<U2"), ("pair", "u1", (2,))])
    array["value"][1] = np.nan
    array["name"][2:4] = "xy"
    array["when"][4] = np.arange(120).reshape(3, 40)
    array["pair"][3] = np.random.default_rng(0).integers(0, 256, (3, 40, 2))
    return array


def expected_rows() -> np.ndarray[Any, Any]:
    """What the file of narrowed rows holds: streams of a few numbers, of both signs and several sizes."""
    steps = np.arange(200 * 2 * 5).reshape(200, 2, 5)
    return ((steps // 10 + 3) * (-1) ** (steps % 2) / 8 ** (steps % 5)).astype("<f4")


def expected_camera() -> np.ndarray[Any, Any]:
    """What the file of foretold pixels holds: a scene under noise, of which zstd alone would see nothing the same."""
    rng, (y, x) = np.random.default_rng(0), np.mgrid[:32, :32]
    smooth = 60 + (x * 3 + y * 2 + 4 * np.arange(80)[:, None, None]) // 2
    return (smooth + rng.integers(-2, 3, (80, 32, 32))).astype("<u2")


def expected_stacks() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """What the pickles of streams hold: a dot that moves over a picture, four frames an item; and what came next."""
    picture = np.add.outer(np.arange(16), np.arange(17)).astype(np.uint8)
    frames = np.tile(picture, (64, 2, 1, 1))
    steps, lanes = np.arange(64)[:, None], np.arange(2)
    frames[steps, lanes, (steps + 5 * lanes) % 16, steps % 17] = 255
    stacks = np.stack([frames[t : t + 61] for t in range(4)], axis=2)
    return stacks[:-1], stacks[1:]


def pickled() -> dict[str, Any]:
    """What is pickled, by name: one array by cells, a stream whole and in part, two arrays on one store."""
    plain, after = expected_stacks()
    stream = ca.compress(plain, item_ndim=3, codec="delta")
    obs = ca.zeros(plain.shape, plain.dtype, item_ndim=3, codec="delta")
    next_obs = ca.CompressedArray(plain.shape, plain.dtype, item_ndim=3, store=obs.store)
    for t in range(len(plain)):
        obs[t], next_obs[t] = plain[t], after[t]
    cells = ca.compress(expected(), item_ndim=1, codec="gzip")
    return {"cells": cells, "stream": stream, "part": stream[5:50:3], "pair": (obs, next_obs)}


if __name__ == "__main__":
    # Run where zstandard is not installed, so that every environment can load what this makes: delta uses it if it can.
    for codec in ("none", "rle", "gzip", "delta"):
        path = HERE / f"format-1-{codec}.ca"
        if not path.exists():
            ca.save(path, ca.compress(expected(), item_ndim=1, codec=codec))
    path = HERE / "format-1-narrowed.ca"
    if not path.exists():
        rows = ca.compress(expected_rows(), item_ndim=1, codec="delta")
        rows.store.compact()  # which narrows groups that are not full, too
        ca.save(path, rows)
    path = HERE / "format-1-foretold.ca"
    if ca.has_zstd() and not path.exists():
        ca.save(path, ca.compress(expected_camera(), item_ndim=2))
    for protocol in (4, 5):
        for name, arrays in pickled().items():
            # Those without "checked" were made when the checksum was of payloads alone.
            path = HERE / f"protocol-{protocol}-{name}-checked.pickle"
            if not path.exists():
                path.write_bytes(pickle.dumps(arrays, protocol))
