"""Saved stores of frames: whole, they come back; damaged, with checksums that are right, they crash nothing."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array import CorruptFileError, CorruptPayloadError
from compressed_array._array import file
from compressed_array._runtime.headers import PREFIX
from compressed_array._stores.frames import engine_native
from compressed_array.codecs.delta import Delta
from core_helpers.arrays import assert_same
from core_helpers.streams import FRAME_CODECS, Screens, Stacked, check_store

pytestmark = pytest.mark.long

Parts = dict[str, np.ndarray[Any, Any]]


def example(kind: str) -> tuple[Any, np.ndarray[Any, Any]]:
    """Arrays that have all there is in a file: several layouts, references, packed groups, rows, a dictionary."""
    if kind == "stacked":
        stream = Stacked(2, 4, (1, 20, 20), episode=9)
        plain = np.stack([step.obs for step in stream.steps(70)])
        array = ca.zeros(plain.shape, np.uint8, item_ndim=3, codec="delta")
    elif kind == "given":
        stream = Stacked(2, 3, (12, 12, 3), axis=2, episode=9)
        plain = np.stack([step.obs for step in stream.steps(40)])
        array = ca.zeros(plain.shape, np.uint8, item_ndim=3, codec=Delta(4, -1, 3))
    elif kind == "packed":
        screens = Screens(1, (20, 20), "busy")
        plain = np.stack([screens.next() for _ in range(400)])[:, None]
        array = ca.zeros(plain.shape, np.uint8, item_ndim=2, codec="delta-zstd/4")
    elif kind == "rows":
        plain = np.random.default_rng(0).integers(0, 256, (90, 2, 17)).astype(np.uint8)
        array = ca.zeros(plain.shape, np.uint8, item_ndim=1, codec="auto")
    else:
        rng = np.random.default_rng(0)
        plain = np.where(rng.random((400, 1, 20, 20)) < 0.01, 255, np.arange(400).reshape(20, 20) % 251).astype(
            np.uint8
        )
        array = ca.zeros(plain.shape, np.uint8, item_ndim=2, codec="delta/2")
    for t, items in enumerate(plain):
        array[t] = items
    array[3] = plain[3] = 0
    return array, plain


KINDS = ["stacked", "given", "rows", "references", *(["packed"] if ca.has_zstd() else [])]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of example."""
    return str(request.param)


def take_apart(path: Path) -> tuple[dict[str, Any], Parts]:
    data = path.read_bytes()
    _, length, _ = PREFIX.unpack(data[: PREFIX.size])
    header = json.loads(data[PREFIX.size :][:length])
    parts, at = {}, PREFIX.size + length
    for name, dtype in file.sections_of("frames").items():
        nbytes = header["sections"][name]["nbytes"]
        parts[name] = np.frombuffer(data[at : at + nbytes], dtype).copy()
        at += nbytes
    return header, parts


def put_together(path: Path, header: dict[str, Any], parts: Parts) -> None:
    """A file with checksums that are right, whatever is in it."""
    sections = {name: {"nbytes": part.nbytes, "crc32": zlib.crc32(part.tobytes())} for name, part in parts.items()}
    text = json.dumps(header | {"sections": sections}).encode()
    prefix = PREFIX.pack(file.MAGIC, len(text), zlib.crc32(text))
    path.write_bytes(prefix + text + b"".join(part.tobytes() for part in parts.values()))


def try_to_use(path: Path, shape: tuple[int, ...]) -> bool:
    """Load and read; if that goes, what is then written has to be right. Whether it did."""
    try:
        array = ca.load(path)
        assert array.shape == shape
        array.read()
        ca.read_pair(array, array[::-1])
    except (CorruptFileError, CorruptPayloadError):
        return False
    item = np.random.default_rng(0).integers(0, 256, (30, *shape[1:])).astype(np.uint8)
    array[:30] = item
    array[30:33] = item[0]
    assert_same(array[:30], item)
    assert_same(array[30:33], np.stack([item[0]] * 3))
    return True


def test_they_come_back(kind: str, tmp_path: Path) -> None:
    array, plain = example(kind)
    ca.save(tmp_path / "a.ca", array)
    header, parts = take_apart(tmp_path / "a.ca")
    put_together(tmp_path / "b.ca", header, parts)
    assert (tmp_path / "a.ca").read_bytes() == (tmp_path / "b.ca").read_bytes()
    back = ca.load(tmp_path / "a.ca")
    assert_same(back, plain)
    assert back.codec == array.codec
    check_store(back)
    assert try_to_use(tmp_path / "a.ca", plain.shape)
    if kind == "references":
        assert header["reference_nbytes"]
    if kind == "stacked":
        assert len(header["layouts"]) == 2


@pytest.mark.parametrize("some", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_flipped_bytes_with_right_checksums(kind: str, some: int, tmp_path: Path, rng: np.random.Generator) -> None:
    array, plain = example(kind)
    ca.save(tmp_path / "a.ca", array)
    header, parts = take_apart(tmp_path / "a.ca")
    names = [name for name, part in parts.items() if part.size]
    refused = 0
    for k in range(some):
        changed = dict(parts)
        name = names[k % len(names)]
        raw = bytearray(parts[name].tobytes())
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(0, min(len(raw), int(rng.choice([40, len(raw)])))))
            raw[at] = int(rng.choice([0, 1, raw[at] ^ 1 << int(rng.integers(0, 8)), 255, int(rng.integers(0, 256))]))
        changed[name] = np.frombuffer(bytes(raw), parts[name].dtype)
        put_together(tmp_path / "b.ca", header, changed)
        refused += not try_to_use(tmp_path / "b.ca", plain.shape)
    assert refused > some // 20


def test_numbers_that_contradict_each_other(kind: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """Whole sections shuffled, cut, moved by one, or set to the largest there is."""
    array, plain = example(kind)
    ca.save(tmp_path / "a.ca", array)
    header, parts = take_apart(tmp_path / "a.ca")
    for name in ("cells", "tag", "size", "before", "count", "layout_of"):
        part = parts[name]
        if not part.size:
            continue
        biggest = np.iinfo(part.dtype).max
        versions = [part[::-1], part[1:], np.append(part, part[-1:]), part + 1, part - 1, rng.permutation(part)]
        versions += [np.full_like(part, value) for value in (0, 1, 64, 65, biggest)]
        versions += [np.roll(part, 1), np.arange(len(part), dtype=part.dtype)]
        for version in versions:
            put_together(tmp_path / "b.ca", header, parts | {name: np.ascontiguousarray(version, part.dtype)})
            try_to_use(tmp_path / "b.ca", plain.shape)
    for name in ("data", "references"):
        for version in (parts[name][:-1], np.append(parts[name], np.uint8(0)), parts[name][:0]):
            if version.size != parts[name].size:
                put_together(tmp_path / "b.ca", header, parts | {name: version})
                assert not try_to_use(tmp_path / "b.ca", plain.shape)


ITEM = 4 * 20 * 20
LIES: list[dict[str, Any]] = [
    {"layouts": []},
    {"layouts": [[1, 1, ITEM, 0, 0]]},
    {"layouts": [[4, 1, 400, 0, 1]]},
    {"layouts": [[4, 1, 400, 0, 1], [1, 1, ITEM, 0, 0]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [1, 1, ITEM, 0, 0]]},
    {"layouts": [[1, 1, ITEM, 0, 0]] * 2 + [[4, 1, 400, 0, 1]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [4, 1, 400, 1, 5]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [4, 1, 400, 0, 2]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [4, 1, 400, 7, 1]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [4, 1, 400, 0, 0]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [4, 1, 400, -3, 1]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [4, 20, 20, 1, 5]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [4, 80, 5, 2, 5]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [ITEM, 1, 1, 0, 1]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [2, 1, 800, 0, 2]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [-4, -1, 400, 0, 1]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [4, 1, 2**62, 0, 1]]},
    {"layouts": [[1, 1, ITEM, 0, 0], [4, 1]]},
    {"layouts": [[1, 1, ITEM, 0, 0], "four"]},
    {"layout": 2},
    {"layout": -1},
    {"layout": "0"},
    {"layout": 0},
    {"found": False},
    {"reference_nbytes": [1]},
    {"reference_nbytes": [-1, 1]},
    {"reference_nbytes": "none"},
    {"choice": "zstd"},
    {"choice": None},
    {"choice": {"library": "compressed-array", "config": {"id": "rle"}}},
    {"choice": {"library": "compressed-array", "config": {"id": "delta", "level": 99}}},
    {"choice": {"library": "compressed-array", "config": {"id": "delta", "stack_axis": 0, "frame_width": 3}}},
    {"choice": {"library": "compressed-array", "config": {"id": "delta-zstd"}}},
    {"choice": "auto"},
    {"codecs": [{"library": "compressed-array", "config": {"id": "gzip"}}]},
    {"codecs": [{"library": "compressed-array", "config": {"id": "delta"}}]},
    {"store": "cells"},
    {"store": "other"},
    {"item_shape": [20, 4, 20]},
    {"item_shape": [4, 400]},
    {"item_shape": [ITEM]},
    {"dtype": "<u2"},
]


@pytest.mark.parametrize("lie", LIES, ids=repr)
def test_headers_that_lie_with_right_checksums(lie: dict[str, Any], tmp_path: Path) -> None:
    array, plain = example("stacked")
    ca.save(tmp_path / "a.ca", array)
    header, parts = take_apart(tmp_path / "a.ca")
    assert header["layouts"] == [[1, 1, ITEM, 0, 0], [4, 1, 400, 0, 1]]
    put_together(tmp_path / "b.ca", header | lie, parts)
    shape = (*plain.shape[:2], *lie.get("item_shape", plain.shape[2:]))
    try:
        try_to_use(tmp_path / "b.ca", shape)
    except ca.CodecUnavailableError:
        assert not ca.has_zstd()


@pytest.mark.parametrize("by_kernels", [True, False])
def test_records_of_zstd_where_groups_are_packed(
    by_kernels: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that packs groups writes no such records, and reads them all the same."""
    pytest.importorskip("zstandard")
    screens = Screens(1, (20, 20), "busy")
    plain = np.stack([screens.next() for _ in range(40)])
    array = ca.compress(plain, codec="delta")
    ca.save(tmp_path / "a.ca", array)
    header, parts = take_apart(tmp_path / "a.ca")
    other = ca.compress(plain, codec="delta-zstd")
    ca.save(tmp_path / "c.ca", other)
    packing, _ = take_apart(tmp_path / "c.ca")
    put_together(tmp_path / "b.ca", header | {key: packing[key] for key in ("choice", "codecs")}, parts)
    if not by_kernels:
        monkeypatch.setattr(engine_native, "is_usable", lambda frames: False)
    assert_same(ca.load(tmp_path / "b.ca"), plain)
    assert try_to_use(tmp_path / "b.ca", plain.shape)


@pytest.mark.parametrize("codec", FRAME_CODECS)
@pytest.mark.parametrize("shape", [(40, 0), (40, 3, 0, 2), (0, 5), (40, 1)])
def test_items_and_grids_of_nothing(codec: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = ca.zeros(shape, np.float32, codec=codec)
    array[...] = 1
    ca.save(tmp_path / "a.ca", array)
    assert_same(ca.load(tmp_path / "a.ca"), np.ones(shape, np.float32))
