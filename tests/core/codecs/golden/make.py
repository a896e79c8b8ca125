"""Adds payloads to the golden corpus: `python tests/core/codecs/golden/make.py`. What is there is never rewritten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from compressed_array import get_codec
from compressed_array.abc import as_bytes_view

HERE = Path(__file__).parent

CODECS: dict[str, Any] = {
    "none": "none",
    "rle": "rle",
    "rle-itemsize-4": {"id": "rle", "itemsize": 4},
    "rle-jit": "rle-jit",
    "rle-jit-itemsize-2": {"id": "rle-jit", "itemsize": 2},
    "gzip-0": "gzip0",
    "gzip-6": "gzip6",
    "igzip-0": "igzip0",
    "igzip-3": "igzip3",
    "zstd--3": "zstd-3",
    "zstd-1": "zstd1",
    "zstd-19": "zstd19",
    "lz4-frame-0": "lz4-frame/0",
    "lz4-frame-9": "lz4-frame/9",
    "lz4-block-0": "lz4-block/0",
    "lz4-block--5": "lz4-block/-5",
    "lz4-block-9": "lz4-block/9",
    "delta": "delta",
    "delta-zstd": "delta-zstd",
}


def sources() -> dict[str, np.ndarray]:
    """The arrays that were encoded; their files are made once, since a generator may change with numpy."""
    rng = np.random.default_rng(20)
    blocks = np.repeat(np.repeat(rng.integers(0, 8, (2, 6, 7), np.uint8), 7, axis=1), 6, axis=2)
    blocks[:, 20:24] = rng.integers(0, 256, (2, 4, 42))
    floats = np.repeat(rng.standard_normal(40).astype(np.float32), rng.integers(1, 9, 40))
    floats[::17] = -0.0
    return {"empty": np.empty(0, np.uint8), "frame": blocks, "floats": floats, "constant": np.full(3000, 5, np.uint8)}


def main() -> None:
    arrays = {}
    for name, array in sources().items():
        path = HERE / f"{name}.npy"
        if not path.exists():
            np.save(path, array)
        arrays[name] = np.load(path)
    codecs = {name: get_codec(spec) for name, spec in CODECS.items()}
    if not (HERE / "zstd-dictionary.json").exists():
        from compressed_array.codecs.zstd import Zstd

        samples = np.tile(arrays["frame"].reshape(-1), (200, 1))
        samples[:, ::97] = np.random.default_rng(1).integers(0, 256, samples[:, ::97].shape)
        codecs["zstd-dictionary"] = Zstd.train(samples, dict_size=2048)
    for name, codec in codecs.items():
        config = HERE / f"{name}.json"
        if not config.exists():
            config.write_text(json.dumps(codec.get_config(), indent=1) + "\n")
        for source, array in arrays.items():
            payload = HERE / f"{name}.{source}.payload"
            if not payload.exists():
                payload.write_bytes(as_bytes_view(codec.encode(array)).tobytes())


if __name__ == "__main__":
    main()
