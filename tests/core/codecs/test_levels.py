"""Levels are checked when a codec is made, and a missing library is named then; nothing else takes its place."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from compressed_array import CodecLevelError, CodecUnavailableError, available_codecs, get_codec

LIBRARIES = {
    "rle-jit": ("numba", "numba"),
    "igzip": ("isal.isal_zlib", "isal"),
    "zstd": ("zstandard", "zstd"),
    "lz4-frame": ("lz4.frame", "lz4"),
    "lz4-block": ("lz4.block", "lz4"),
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
    ],
)
def test_level_range(codec_id: str, lowest: int, highest: int, default: int) -> None:
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
