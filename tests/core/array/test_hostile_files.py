"""Files that somebody made to do harm, with right checksums: an error by name, in little memory, and never a crash."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array._array import file
from compressed_array._array.pickling import State
from compressed_array._runtime.headers import PREFIX
from compressed_array._stores.cell_export import FIRST_CODEC, CellExport
from compressed_array._stores.frames.checks import STREAMED_FROM
from compressed_array._stores.frames.export import FrameExport
from compressed_array._stores.frames.groups import FIRST_PACKED, KIND_BITS, RAW_FRAME
from compressed_array._stores.frames.layouts import Layout
from compressed_array.codecs import _description
from core_helpers.arrays import assert_same
from core_helpers.guarded import Guarded

PLAIN = (np.arange(60 * 3 * 200).reshape(60, 3, 200) // 37 % 5).astype(np.uint8)
NASTY = [True, None, -1, 0, 1, 2**31, 10**12, 10**400, 1.5, "x", [], {}, [True]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.ca"


def parts_of(path: Path) -> tuple[dict[str, Any], bytes]:
    data = path.read_bytes()
    _, length, _ = PREFIX.unpack(data[: PREFIX.size])
    return json.loads(data[PREFIX.size :][:length]), data[PREFIX.size + length :]


def write(path: Path, header: Any, sections: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(PREFIX.pack(file.MAGIC, len(text), zlib.crc32(text)) + text + sections)


def refused(path: Path) -> None:
    with pytest.raises(ca.CorruptFileError):
        ca.load(path)


@pytest.mark.parametrize("lie", [10**12, -(10**12), True, 1.0, None])
@pytest.mark.parametrize("codec", ["none", "delta"])
def test_sizes_of_sections(lie: Any, codec: str, path: Path) -> None:
    """Together they fill the file, as they should, and one of them by itself does not."""
    ca.save(path, ca.compress(PLAIN, item_ndim=1, codec=codec))
    header, sections = parts_of(path)
    names = list(file.sections_of(header["store"]))
    for name, other in zip(names, names[1:] + names[:1], strict=True):
        changed = json.loads(json.dumps(header))
        both = changed["sections"][name]["nbytes"] + changed["sections"][other]["nbytes"]
        changed["sections"][name]["nbytes"] = lie
        if lie is not None:
            changed["sections"][other]["nbytes"] = both - lie
        write(path, changed, sections)
        refused(path)


@pytest.mark.parametrize("codec", ["none", "delta"])
@pytest.mark.parametrize(
    "change",
    [
        {"item_shape": [2**32]},
        {"item_shape": [2**26]},
        {"shape": [1] * 100, "item_shape": []},
        {"shape": [], "item_shape": [1] * 100},
        {"shape": [1], "item_shape": [1] * 64},
        {"shape": [True]},
        {"item_shape": [True]},
        {"shape": [1.0]},
        {"format": True},
        {"format": 1.0},
        {"item_shape": [0, 10**400]},
        {"dtype": "|V2147483647", "item_shape": [3]},
    ],
    ids=str,
)
def test_shapes_that_no_array_has(codec: str, change: dict[str, Any], path: Path) -> None:
    """An item over 4 GiB (over 64 MiB in a stream), more axes than numpy knows, and what only looks like a number."""
    array = ca.zeros((1, 1), np.uint8, item_ndim=1, codec=codec)
    ca.save(path, array)
    header, sections = parts_of(path)
    assert ca.load(path).shape == (1, 1)
    if codec == "none" and change == {"item_shape": [2**26]}:
        return  # an item like others there
    write(path, header | change, sections)
    refused(path)


def leaves(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a header there is something that could be something else."""
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*at, key))


def changed(header: Any, at: tuple[Any, ...], lie: Any) -> Any:
    if not at:
        return lie
    made = json.loads(json.dumps(header))
    inner = made
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = lie
    return made


@pytest.mark.parametrize("codec", ["gzip", "delta-zstd", "auto"])
def test_every_value_of_the_header_may_be_a_lie(codec: str, path: Path) -> None:
    """What loads reads, or says that it does not; nothing but our errors ever comes of it."""
    if codec == "delta-zstd":
        pytest.importorskip("zstandard")
    ca.save(path, ca.compress(PLAIN[:20], item_ndim=1, codec=codec))
    header, sections = parts_of(path)
    loaded = 0
    for at in leaves(header):
        for lie in NASTY:
            write(path, changed(header, at, lie), sections)
            try:
                back = ca.load(path)
                loaded += 1
                back.read() if back.nbytes < 2**20 else back.shape
            except (ca.CorruptFileError, ca.CorruptPayloadError, ca.UnknownCodecError, ca.CodecUnavailableError):
                pass
    assert 0 < loaded < 200, "what is said of `auto`, and little else, may be another number"


@pytest.mark.parametrize("codec", ["gzip", "delta", "delta-zstd"])
@pytest.mark.parametrize("some", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_sections_may_be_lies(codec: str, some: int, path: Path, rng: np.random.Generator) -> None:
    if codec == "delta-zstd":
        pytest.importorskip("zstandard")
    ca.save(path, ca.compress(PLAIN[:20], item_ndim=1, codec=codec))
    header, sections = parts_of(path)
    sizes = [header["sections"][name]["nbytes"] for name in file.sections_of(header["store"])]
    for _ in range(some):
        data = bytearray(sections)
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
        ends = np.cumsum(sizes).tolist()
        for name, low, high in zip(file.sections_of(header["store"]), [0, *ends], ends, strict=False):
            header["sections"][name]["crc32"] = zlib.crc32(data[low:high])
        write(path, header, bytes(data))
        try:
            back = ca.load(path)
            back.read()
            back[3] = 7
            assert (back[3] == 7).all()
        except (ca.CorruptFileError, ca.CorruptPayloadError):
            pass


def save_state(path: Path, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(file, "take", lambda array: state)
        ca.save(path, ca.zeros(1, np.uint8))


READER = """
import resource, sys
import compressed_array as ca
ca.load(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(ca.load(sys.argv[2]).shape)
except ca.CorruptFileError as error:
    print("CorruptFileError")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is counted in other units")
@pytest.mark.parametrize("is_group", [True, False])
def test_a_small_file_takes_little_memory(is_group: bool, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of frames as they are, of 192 MiB in all, is looked at frame by frame, whatever it is packed to."""
    zstandard = pytest.importorskip("zstandard")
    from compressed_array.codecs.delta import DeltaZstd
    from compressed_array.codecs.zstd import Zstd

    count, nbytes = 16, 12 * 1024 * 1024
    head = nbytes << KIND_BITS | RAW_FRAME
    header = bytes([head & 127 | 128, head >> 7 & 127 | 128, head >> 14 & 127 | 128, head >> 21]) if is_group else b"\1"
    packer = zstandard.ZstdCompressor(1).compressobj(size=count * (len(header) + nbytes))
    parts = [packer.compress(header + bytes(nbytes)) for _ in range(count)]
    data = np.frombuffer(b"".join([*parts, packer.flush()]), np.uint8)
    one, none = np.ones(1, np.uint8), np.zeros(1, np.uint8)
    export = FrameExport(
        DeltaZstd(),
        [Layout.unstacked(nbytes)],
        0,
        True,
        [Zstd(2)],
        [],
        one * FIRST_PACKED,
        np.array([data.size], np.uint32),
        none.astype(np.uint32),
        one * count,
        none,
        data,
    )
    state = State((nbytes,), np.dtype(np.uint8), np.array([count], np.uint32), export)
    save_state(path, state, monkeypatch)
    assert path.stat().st_size < 40_000
    assert count * nbytes > STREAMED_FROM
    ca.save(path.with_name("small.ca"), ca.compress(PLAIN, item_ndim=1, codec="delta-zstd"))
    command = [sys.executable, "-c", READER, str(path.with_name("small.ca")), str(path)]
    found, grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert found == (f"(1, {nbytes})" if is_group else "CorruptFileError")
    assert int(grown) < 96


@pytest.mark.parametrize("name", ["BZ2", "Zlib", "GZip", "LZMA", "Zstd", "Blosc", "LZ4"])
def test_payloads_of_numcodecs_take_what_an_item_does(name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = getattr(pytest.importorskip("numcodecs"), name)()
    item = 1000
    bomb, right = (np.frombuffer(codec.encode(np.zeros(n, np.uint8)), np.uint8) for n in (50_000_000, item))
    size = np.array([len(right), len(bomb)], np.uint32)
    export = CellExport([codec], 0, 2, [], np.full(2, FIRST_CODEC, np.uint8), size, np.concatenate([right, bomb]))
    save_state(path, State((item,), np.dtype(np.uint8), np.array([1, 2], np.uint32), export), monkeypatch)
    array = ca.load(path)
    tracemalloc.start()
    try:
        assert_same(array[0], np.zeros(item, np.uint8))
        with pytest.raises(ca.CorruptPayloadError):
            array.read()
        assert tracemalloc.get_traced_memory()[1] < 20_000_000  # of which lzma takes eight at any rate
    finally:
        tracemalloc.stop()


def against_guards(data: np.ndarray[Any, Any]) -> Iterable[np.ndarray[Any, Any]]:
    """The same bytes, next to pages that may not be read where there can be some."""
    return Guarded(data.size).holding(data) if sys.platform == "linux" else [data]


@pytest.mark.parametrize("name", ["BZ2", "Zlib", "GZip", "LZMA", "Zstd", "Blosc", "LZ4"])
def test_payloads_of_numcodecs_that_are_damaged(name: str, rng: np.random.Generator) -> None:
    """They raise or decode to as many bytes, and nothing around them is read."""
    from compressed_array._runtime.payloads import Payloads
    from compressed_array.abc import decode_each
    from compressed_array.testing import mutations

    codec = getattr(pytest.importorskip("numcodecs"), name)()
    for nbytes in (1, 255, 256, 300, 70_000):
        data, out = rng.integers(0, 3, nbytes).astype(np.uint8), np.empty((1, nbytes), np.uint8)
        payload = bytes(codec.encode(data))
        decode_each(codec, Payloads.from_parts([np.frombuffer(payload, np.uint8)]), out)
        assert (out[0] == data).all()
        for bad in mutations(payload, 40, nbytes):
            for placed in against_guards(np.frombuffer(bad, np.uint8)):
                with suppress(ca.CorruptPayloadError):
                    decode_each(codec, Payloads.from_parts([placed]), out)


def test_a_missing_library_is_named_with_its_extra(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numcodecs = pytest.importorskip("numcodecs")
    ca.save(path, ca.compress(PLAIN, item_ndim=1, codec=numcodecs.BZ2()))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "numcodecs", None)
        with pytest.raises(ca.CodecUnavailableError, match=r"'bz2'.*compressed-array\[numcodecs\]"):
            ca.load(path)
    header, sections = parts_of(path)
    for codec_id in _description.EXTRAS:
        if codec_id not in {*numcodecs.registry.codec_registry, *numcodecs.registry.entries}:
            header["codecs"][0]["config"] = {"id": codec_id}
            write(path, header, sections)
            with pytest.raises(ca.CodecUnavailableError, match=rf"'{codec_id}'.*numcodecs\["):
                ca.load(path)


@pytest.mark.parametrize(("codec", "module", "extra"), [("zstd", "zstandard", "zstd"), ("lz4-frame", "lz4", "lz4")])
def test_a_missing_library_of_ours(
    codec: str, module: str, extra: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(module)
    ca.save(path, ca.compress(PLAIN, item_ndim=1, codec=codec))
    for name in (module, f"{module}.frame"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ca.CodecUnavailableError, match=rf"compressed-array\[{extra}\]"):
        ca.load(path)
