"""Our codecs as compressors and filters of zarr arrays: what is written is read, in any order, by any process."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from core_helpers.codecs import SPECS

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")

PLAIN = (np.arange(20 * 30 * 7).reshape(20, 30, 7) // 11 % 97).astype("<i4")
# What the package declares, so that numcodecs finds our codecs wherever it is installed.
ENTRY_POINTS = {
    "none": "none:Raw",
    "rle": "rle:RLE",
    "rle-jit": "rle:RLEJit",
    "igzip": "igzip:Igzip",
    "frame-delta": "delta:Delta",
    "delta-zstd": "delta:DeltaZstd",
    "lz4-frame": "lz4:LZ4Frame",
    "lz4-block": "lz4:LZ4Block",
}
READER = """
import json, sys, hashlib, numpy as np, zarr
for path in json.loads(sys.argv[1]):
    found = zarr.open_array(path, mode="r")
    print(hashlib.sha256(np.ascontiguousarray(found[:]).tobytes()).hexdigest(), type(found.compressors[0]).__module__)
assert "compressed_array" in sys.modules
"""


@pytest.fixture(params=SPECS, ids=str)
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    return registered(request.param, monkeypatch)


def registered(spec: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A codec that numcodecs knows by its id, or has one of its own for."""
    made = ca.get_codec(spec)
    if made.codec_id not in numcodecs.registry.codec_registry:
        monkeypatch.setitem(numcodecs.registry.codec_registry, made.codec_id, type(made))
    return made


def write(path: Path, codec: Any, order: str) -> Any:
    array = zarr.create_array(
        path, shape=PLAIN.shape, chunks=(7, 30, 4), dtype=PLAIN.dtype, zarr_format=2, order=order, compressors=codec
    )
    array[:] = PLAIN
    return array


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_zarr(codec: Any, order: str, tmp_path: Path) -> None:
    array = write(tmp_path / "a", codec, order)
    assert (array[:] == PLAIN).all()
    found = zarr.open_array(tmp_path / "a", mode="r")
    assert found.order == order
    assert found.compressors[0] == codec
    assert (found[:] == PLAIN).all()
    assert (found[3:9, :, 5] == PLAIN[3:9, :, 5]).all()


def test_filters(codec: Any, tmp_path: Path) -> None:
    """A filter is given what another left."""
    array = zarr.create_array(
        tmp_path / "a",
        shape=PLAIN.shape,
        chunks=(7, 30, 4),
        dtype=PLAIN.dtype,
        zarr_format=2,
        order="F",
        filters=[numcodecs.Delta("<i4"), codec],
        compressors=numcodecs.Zstd(1),
    )
    array[:] = PLAIN
    assert (zarr.open_array(tmp_path / "a", mode="r")[:] == PLAIN).all()


def test_a_process_that_knows_zarr_alone_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """numcodecs finds our codecs by entry points of the installed package, and for ids that it has uses its own."""
    paths = []
    for spec in SPECS:
        made = registered(spec, monkeypatch)
        for order in "CF":
            paths.append(str(tmp_path / f"{len(paths)}"))
            write(Path(paths[-1]), made, order)
    info = tmp_path / "installed" / "compressed_array_declared-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: compressed-array-declared\nVersion: 1.0\n")
    lines = [f"{name} = compressed_array.codecs.{where}" for name, where in ENTRY_POINTS.items()]
    (info / "entry_points.txt").write_text("\n".join(["[numcodecs.codecs]", *lines, ""]))
    source = str(Path(ca.__file__).parents[1])
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(info.parent), source, os.environ.get("PYTHONPATH", "")])}
    child = subprocess.run(
        [sys.executable, "-c", READER, json.dumps(paths)], env=env, capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    digests, modules = zip(*(line.split() for line in child.stdout.splitlines()), strict=True)
    assert set(digests) == {hashlib.sha256(PLAIN.tobytes()).hexdigest()}
    theirs = [module.startswith("numcodecs") for module in modules]
    assert theirs == [ca.get_codec(spec).codec_id in ("gzip", "zstd") for spec in SPECS for _ in "CF"]
