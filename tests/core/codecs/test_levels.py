"""Levels are checked when a codec is made, and a missing library is named then; nothing else takes its place."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from compressed_array import CodecLevelError, CodecUnavailableError, available_codecs, compress, get_codec

LIBRARIES = {
    "rle-jit": ("numba", "numba"),
    "igzip": ("isal.isal_zlib", "isal"),
    "zstd": ("zstandard", "zstd"),
    "lz4-frame": ("lz4.frame", "lz4"),
    "lz4-block": ("lz4.block", "lz4"),
    "delta-zstd": ("zstandard", "zstd"),
}


def make(spec: Any) -> Any:
    try:
        return get_codec(spec)
    except CodecUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("codec_id", "lowest", "highest", "default"),
    [
        ("gzip", 0, 9, 6),
        ("igzip", 0, 3, 1),
        ("zstd", -100, 22, -3),
        ("lz4-frame", -65537, 16, 0),
        ("lz4-block", -65537, 12, 0),
        ("delta", 1, 64, None),
        ("delta-zstd", 1, 64, None),
    ],
)
def test_level_range(codec_id: str, lowest: int, highest: int, default: int | None) -> None:
    """The documented levels, and no other; without one, the documented default."""
    assert make(codec_id).level == default
    for level in (lowest, highest):
        codec = make({"id": codec_id, "level": level})
        data = np.arange(100, dtype=np.uint8)
        assert bytes(codec.decode(codec.encode(data))) == data.tobytes()
    for level, nearest in ((lowest - 1, lowest), (highest + 1, highest), (highest + 50, highest)):
        with pytest.raises(CodecLevelError, match=rf"{codec_id}.*\b{highest}\b") as caught:
            get_codec({"id": codec_id, "level": level})
        assert caught.value.nearest == nearest


@pytest.mark.parametrize("level", [True, 1.0, "1", None, np.float64(2)])
def test_level_is_an_int(level: object) -> None:
    with pytest.raises(CodecLevelError):
        get_codec({"id": "gzip", "level": level})


def test_numpy_level_becomes_plain() -> None:
    """A numpy integer is a level, and the config stays JSON."""
    assert type(get_codec({"id": "gzip", "level": np.int8(3)}).level) is int


def test_level_zero_of_zstd_is_its_own_default() -> None:
    """It is what numcodecs and zarr say when nobody says anything."""
    data = np.repeat(np.arange(100, dtype=np.uint8), 9)
    assert make("zstd0").encode(data) == make("zstd3").encode(data)
    assert get_codec({"id": "zstd", "level": 0, "checksum": False}) == get_codec("zstd0") != get_codec("zstd3")


@pytest.mark.parametrize("spec", ["none3", "none/3", "rle5", "rle/-1", "rle-jit/2"])
def test_codecs_without_levels(spec: str) -> None:
    with pytest.raises(CodecLevelError, match="no levels"):
        get_codec(spec)


@pytest.mark.parametrize("codec_id", LIBRARIES)
def test_missing_library(codec_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra, at construction; no other codec is used instead."""
    module, extra = LIBRARIES[codec_id]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(CodecUnavailableError, match=rf"compressed-array\[{extra}\]"):
        get_codec(codec_id)
    monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    info = available_codecs()[codec_id]
    assert (info.available, info.extra) == (False, extra)
    assert extra in str(info)


@pytest.mark.parametrize("name", ["gzip", "igzip", "rle", "rle-jit", "lz4-block"])
def test_largest_record(name: str) -> None:
    """A record whose size the format cannot say is refused; it would come back as another, or not at all."""
    codec = make(name)
    codec.max_buffer_size = 999
    assert codec == make(name), "a limit is not part of the config"
    assert bytes(codec.decode(codec.encode(bytes(999)))) == bytes(999)
    with pytest.raises(ValueError, match="up to 999 bytes, not 1000"):
        codec.encode(bytes(1000))
    records = np.zeros((20, 1000), np.uint8)
    if name == "lz4-block":  # the library's limit, half of what an array takes: such records are stored as they are
        assert (codec.encode_batch(records).size == 1000).all()
    else:
        with pytest.raises(ValueError, match="up to 999 bytes, not 1000"):
            codec.encode_batch(records)


def test_largest_records_are_what_the_formats_count() -> None:
    from compressed_array.codecs import gzip, igzip, lz4, rle

    assert {c.max_buffer_size for c in (gzip.Gzip, igzip.Igzip, rle.RLE, rle.RLEJit)} == {2**32 - 1}
    assert lz4.LZ4Block.max_buffer_size == 0x7E000000


def test_lz4_stores_what_is_too_large_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    make("lz4-block")
    monkeypatch.setattr("compressed_array.codecs.lz4.LZ4Block.max_buffer_size", 999)
    items = np.repeat(np.arange(20, dtype=np.uint8)[:, None], 1000, axis=1)
    array = compress(items, item_ndim=1, codec="lz4-block")
    assert (array[np.arange(20)] == items).all()
