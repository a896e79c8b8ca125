"""Names: parsed by one function, inverted by one, and looked up without importing more than is asked for."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compressed_array import (
    Codec,
    CodecUnavailableError,
    UnknownCodecError,
    available_codecs,
    get_codec,
    register_codec,
    registry,
    shorthand,
)
from compressed_array.codecs.none import Raw
from compressed_array.registry import parse_shorthand


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("igzip3", {"id": "igzip", "level": 3}),
        ("igzip/3", {"id": "igzip", "level": 3}),
        ("zstd-5", {"id": "zstd", "level": -5}),
        ("zstd/-5", {"id": "zstd", "level": -5}),
        ("lz4-frame/5", {"id": "lz4-frame", "level": 5}),
        ("lz4-block/-5", {"id": "lz4-block", "level": -5}),
        ("lz4-frame5", {"id": "lz4-frame5"}),
        ("rle-jit", {"id": "rle-jit"}),
        ("zstd", {"id": "zstd"}),
        ("zstd--5", {"id": "zstd--5"}),
        ("zstd3\n", {"id": "zstd3\n"}),
        ("", {"id": ""}),
        ("5", {"id": "5"}),
    ],
)
def test_parse_shorthand(text: str, config: dict[str, Any]) -> None:
    assert parse_shorthand(text) == config


@pytest.mark.parametrize(
    "name", ["none", "rle", "rle-jit", "gzip1", "igzip3", "zstd-5", "zstd22", "lz4-frame/-5", "lz4-block/0"]
)
def test_shorthand_inverts(name: str) -> None:
    """A codec's shorthand makes an equal codec."""
    try:
        codec = get_codec(name)
    except CodecUnavailableError as error:
        pytest.skip(str(error))
    assert shorthand(codec) == name
    assert get_codec(shorthand(codec)) == codec


@pytest.mark.parametrize("name", ["", "lz4-frame5", "nonsense", "zstd5x", "5", "none/", "no/such/7", "gzip3\n", "no7"])
def test_unknown_names(name: str) -> None:
    """An unknown name is an error that repeats it and lists the known ones."""
    with pytest.raises(UnknownCodecError, match="known: delta, delta-zstd, gzip") as caught:
        get_codec(name)
    assert caught.value.codec_id == name


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("delta_zstd", "delta-zstd"),
        ("delta_zstd/3", "delta-zstd"),
        ("Zstd-3", "zstd"),
        ("zsdt-3", "zstd"),
        ("lz4block", "lz4-block"),
        ("rle_jit", "rle-jit"),
        ("xyz", None),
    ],
)
def test_a_slip_is_told_what_was_meant(name: str, meant: str | None) -> None:
    with pytest.raises(UnknownCodecError) as caught:
        get_codec(name)
    assert ("did you mean" in str(caught.value)) == (meant is not None)
    assert meant is None or f"did you mean {meant!r}?" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("spec", [None, 3, b"zstd", Raw])
def test_not_a_codec(spec: object) -> None:
    with pytest.raises(TypeError, match="a codec is a name"):
        get_codec(spec)


@pytest.mark.parametrize("config", [{}, {"level": 3}, {"id": 3}])
def test_config_without_id(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'id'"):
        get_codec(config)


def test_config_is_not_changed() -> None:
    """The caller's dict is read and left alone, so that it can be used again."""
    config = {"id": "gzip", "level": 3}
    assert get_codec(config) == get_codec(config)
    assert config == {"id": "gzip", "level": 3}


def test_codec_passes_through() -> None:
    codec = Raw()
    assert get_codec(codec) is codec


class Custom(Codec):
    codec_id = "custom"

    def __init__(self, level: int = 1) -> None:
        self.level = level

    def encode(self, buf: Any) -> bytes:
        return bytes(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        return bytes(buf)


@pytest.fixture
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


@pytest.mark.usefixtures("_registry")
def test_register() -> None:
    """A registered class is found by name, with a level where it takes one."""
    register_codec(Custom)
    register_codec(Custom)
    assert get_codec("custom7") == Custom(7)
    assert available_codecs()["custom"].available
    register_codec(Custom, "other-name")
    assert get_codec("other-name/2") == Custom(2)


@pytest.mark.usefixtures("_registry")
def test_register_does_not_shadow() -> None:
    """Taking a name that is in use has to be meant."""
    register_codec(Custom)
    with pytest.raises(ValueError, match="replace=True"):
        register_codec(type("Another", (Custom,), {}))
    with pytest.raises(ValueError, match="built in"):
        register_codec(Custom, "zstd")
    with pytest.raises(ValueError, match="under a name"):
        register_codec(Custom, "")
    register_codec(Custom, "none", replace=True)
    assert get_codec("none") == Custom()


class Custom2(Custom):
    codec_id = "custom2"


class Strict(Custom):
    """As numcodecs does it: whoever calls `from_config` has taken the id off."""

    codec_id = "strict"

    @classmethod
    def from_config(cls, config: Any) -> Strict:
        return cls(**config)


@pytest.mark.usefixtures("_registry")
def test_names_that_end_in_a_digit() -> None:
    """A codec of just that name comes before a shorter name with a level, and a shorthand knows of both."""
    register_codec(Custom2)
    assert get_codec("custom2") == Custom2()
    assert get_codec("custom2/5") == Custom2(5)
    assert shorthand(Custom2(5)) == "custom2/5"
    register_codec(Custom)
    assert get_codec("custom2") == Custom2()
    assert get_codec("custom3") == Custom(3)
    assert shorthand(Custom(3)) == "custom3"
    assert shorthand(Custom(2)) == "custom/2"
    for codec in (Custom(2), Custom(3), Custom2(5), Custom2(1)):
        assert get_codec(shorthand(codec)) == codec


@pytest.mark.usefixtures("_registry")
def test_from_config_gets_no_id() -> None:
    register_codec(Strict)
    assert get_codec({"id": "strict", "level": 4}) == Strict(4)
    assert get_codec("strict4") == Strict(4)


def test_shorthand_is_not_another_codec() -> None:
    """What no name says in full is not a name: it must not make a codec that is something else."""
    assert shorthand(Custom(3)) == "Custom(level=3)"
    assert shorthand(get_codec({"id": "rle", "itemsize": 4})) == "rle"
    with pytest.raises(UnknownCodecError):
        get_codec(shorthand(Custom(3)))


def test_numcodecs_names() -> None:
    numcodecs = pytest.importorskip("numcodecs")
    assert get_codec("lz4") == numcodecs.LZ4()
    assert get_codec("bz2") == numcodecs.BZ2()
    assert get_codec("crc32") == numcodecs.CRC32()
    assert get_codec("bz2/3") == numcodecs.BZ2(3)
    assert shorthand(numcodecs.BZ2(3)) == "bz2/3"
    assert shorthand(numcodecs.LZ4()) == "lz4"
    assert get_codec(shorthand(numcodecs.Zstd(level=2))) == numcodecs.Zstd(level=2)
    for other in (numcodecs.LZ4(acceleration=5), numcodecs.Delta("<i4")):
        with pytest.raises(UnknownCodecError):
            get_codec(shorthand(other))


def test_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package offers a codec; it is imported when that codec is asked for, and not before."""
    (tmp_path / "fake_codec_module.py").write_text(
        "from compressed_array.codecs.none import Raw\nclass Fake(Raw):\n    codec_id = 'fake'\n"
    )
    info = tmp_path / "fake_codec-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-codec\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[compressed_array.codecs]\nfake = fake_codec_module:Fake\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert available_codecs()["fake"].source == "entry point"
    get_codec("gzip")
    assert "fake_codec_module" not in sys.modules
    try:
        assert bytes(get_codec("fake").decode(b"abc")) == b"abc"
        assert type(get_codec({"id": "fake"})).__module__ == "fake_codec_module"
    finally:
        sys.modules.pop("fake_codec_module", None)


def test_numcodecs_codec() -> None:
    """A numcodecs codec is used as it is, passed in or named by a config we do not know."""
    numcodecs = pytest.importorskip("numcodecs")
    from compressed_array.abc import decode_each, encode_each

    codec = numcodecs.Zstd(level=2)
    assert get_codec(codec) is codec
    assert get_codec({"id": "blosc", "cname": "lz4"}) == numcodecs.Blosc("lz4")
    assert type(get_codec("bz2/3")).__module__.startswith("numcodecs")
    records, out = np.repeat(np.arange(9, dtype=np.uint8)[:, None], 300, axis=1), np.empty((9, 300), np.uint8)
    decode_each(codec, encode_each(codec, records), out)
    assert (out == records).all()


def test_without_numcodecs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numcodecs", None)
    monkeypatch.setitem(sys.modules, "numcodecs.registry", None)
    with pytest.raises(UnknownCodecError):
        get_codec("blosc")


def test_import_is_light() -> None:
    """Importing the package, and using what needs no library, imports none; nor does a name that is not known."""
    code = (
        "import sys, compressed_array as ca; ca.get_codec('rle'); ca.shorthand(ca.get_codec('gzip1'));"
        "print([m for m in ('numba', 'torch', 'zstandard', 'lz4', 'isal', 'numcodecs') if sys.modules.get(m)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_info_is_readable() -> None:
    assert str(available_codecs()["none"]) == "available (built in)"
