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
    for level in (lowest - 1, highest + 1):
        with pytest.raises(CodecLevelError, match=rf"{codec_id}.*\b{highest}\b"):
            get_codec({"id": codec_id, "level": level})


@pytest.mark.parametrize("level", [True, 1.0, "1", None, np.float64(2)])
def test_level_is_an_int(level: object) -> None:
    with pytest.raises(CodecLevelError):
        get_codec({"id": "gzip", "level": level})


def test_numpy_level_becomes_plain() -> None:
    """A numpy integer is a level, and the config stays JSON."""
    assert type(get_codec({"id": "gzip", "level": np.int8(3)}).level) is int


def test_zstd_has_no_level_zero() -> None:
    """The library takes 0 for its own default, which is not ours."""
    make("zstd")
    with pytest.raises(CodecLevelError):
        get_codec("zstd0")


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


@pytest.mark.parametrize(
    ("name", "module"), [("gzip", "gzip"), ("igzip", "gzip"), ("rle", "rle"), ("rle-jit", "rle"), ("lz4-block", "lz4")]
)
def test_largest_record(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record whose size the format cannot say is refused; it would come back as another, or not at all."""
    codec = make(name)
    monkeypatch.setattr(f"compressed_array.codecs.{module}.LARGEST_RECORD", 999)
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
    from compressed_array.codecs import gzip, lz4, rle

    assert gzip.LARGEST_RECORD == rle.LARGEST_RECORD == 2**32 - 1
    assert lz4.LARGEST_RECORD == 0x7E000000


def test_lz4_stores_what_is_too_large_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    make("lz4-block")
    monkeypatch.setattr("compressed_array.codecs.lz4.LARGEST_RECORD", 999)
    items = np.repeat(np.arange(20, dtype=np.uint8)[:, None], 1000, axis=1)
    array = compress(items, item_ndim=1, codec="lz4-block")
    assert (array[np.arange(20)] == items).all()
