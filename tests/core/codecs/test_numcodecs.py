"""Our codecs in numcodecs' hands: its own checkers pass, and an id that both have means the same to both."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compressed_array import Codec, CodecUnavailableError, available_codecs, get_codec
from core_helpers.codecs import SPECS

numcodecs = pytest.importorskip("numcodecs")
common = pytest.importorskip("numcodecs.tests.common")

SHARED = ["gzip", "zstd", {"id": "zstd", "level": 3, "checksum": True}]
THEIRS = dict(numcodecs.registry.codec_registry)
# What numcodecs' own tests take, without what needs more than a few bytes of each.
ARRAYS = [
    np.arange(1000, dtype="i4"),
    np.linspace(1000, 1001, 1000, dtype="f8"),
    np.random.default_rng(0).normal(1000, 1, (100, 10)),
    np.random.default_rng(0).integers(0, 2, 1000).astype(bool).reshape(100, 10, order="F"),
    np.random.default_rng(0).choice([b"a", b"bb", b"ccc"], 1000).reshape(10, 10, 10),
    np.random.default_rng(0).integers(0, 2**40, 1000).astype("u8").view("M8[ns]"),
    np.random.default_rng(0).integers(0, 2**40, 1000).astype("u8").view("m8[m]").reshape(100, 10, order="F"),
    np.asfortranarray(np.arange(60, dtype=">i2").reshape(3, 4, 5)),
    np.empty((0, 3)),
]


@pytest.fixture(params=SPECS, ids=str)
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A codec of ours, that numcodecs finds by its id unless it has one of that id itself."""
    try:
        made = get_codec(request.param)
    except CodecUnavailableError as error:
        pytest.skip(str(error))
    if made.codec_id not in THEIRS:
        monkeypatch.setitem(numcodecs.registry.codec_registry, made.codec_id, type(made))
    monkeypatch.setattr(common, type(made).__name__, type(made), raising=False)
    return made


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_encode_decode(codec: Any, array: np.ndarray[Any, Any]) -> None:
    common.check_encode_decode(array, codec)


def test_config(codec: Any) -> None:
    """What numcodecs makes of a config is equal, of its own class where it has one."""
    common.check_config(codec)
    config = codec.get_config()
    assert numcodecs.get_codec(config) == codec
    assert type(numcodecs.get_codec(config)) is THEIRS.get(codec.codec_id, type(codec))


def test_repr(codec: Any) -> None:
    common.check_repr(repr(codec))


def test_backwards_compatibility(codec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written the first time is read the second time."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        common.check_backwards_compatibility(codec.codec_id, ARRAYS, [codec])


def test_arrays_of_objects_are_refused(codec: Any) -> None:
    common.check_err_decode_object_buffer(codec)
    common.check_err_encode_object_buffer(codec)
    with pytest.raises(TypeError):
        codec.encode(memoryview(np.array(["foo"], object)))


def test_max_buffer_size(codec: Any) -> None:
    common.check_max_buffer_size(codec)


@pytest.mark.parametrize("codec", SHARED, ids=str, indirect=True)
def test_ids_that_both_have_are_the_same_codec(codec: Any) -> None:
    """Each decodes what the other encoded, made from the other's config."""
    assert codec.codec_id in THEIRS
    theirs = numcodecs.get_codec(codec.get_config())
    ours = get_codec(theirs.get_config())
    assert isinstance(ours, Codec)
    assert not isinstance(theirs, Codec)
    assert ours == theirs == codec
    for array in ARRAYS:
        assert bytes(ours.decode(theirs.encode(array))) == array.tobytes(order="A")
        if array.size:  # of nothing, numcodecs' zstd does not decode its own payload either
            assert bytes(theirs.decode(codec.encode(array))) == array.tobytes(order="A")


def test_no_other_id_is_theirs() -> None:
    ours = {get_codec(name).codec_id for name, info in available_codecs().items() if info.available}
    others = [entry for entry in numcodecs.registry.entries.values() if "compressed_array" not in entry.value]
    assert ours & {*THEIRS, *(entry.name for entry in others)} <= {"gzip", "zstd"}


def test_memory_that_is_not_contiguous() -> None:
    """numcodecs refuses it; ours take the elements as they come, and refuse to decode to it."""
    strided, codec = np.arange(400, dtype=np.int16).reshape(20, 20)[::2, ::-3], get_codec("gzip")
    assert bytes(codec.decode(codec.encode(strided))) == strided.tobytes()
    with pytest.raises(ValueError, match="contiguous"):
        codec.decode(codec.encode(strided), out=strided)


def test_views_of_memory_in_any_order() -> None:
    array = np.asfortranarray(np.arange(60, dtype="i2").reshape(3, 20))
    codec, out = get_codec("gzip"), np.zeros_like(array)
    assert codec.encode(memoryview(array)) == codec.encode(array) != codec.encode(array.copy("C"))
    codec.decode(codec.encode(array), out=memoryview(out))
    assert (out == array).all()


def test_configs_from_before_are_taken() -> None:
    """`delta` was an id in configs, and `zstd` said that it had no dictionary."""
    assert get_codec({"id": "delta", "level": 8, "stack_axis": None, "frame_width": None}) == get_codec("delta8")
    assert get_codec("delta8").get_config()["id"] == "frame-delta"
    pytest.importorskip("zstandard")
    assert get_codec({"id": "zstd", "level": -3, "dictionary": None}) == get_codec("zstd-3")


def test_the_package_declares_its_codecs() -> None:
    text = (Path(__file__).parents[3] / "packages/compressed-array/pyproject.toml").read_text()
    declared = tomllib.loads(text)["project"]["entry-points"]["numcodecs.codecs"]
    ours = {get_codec(name).codec_id for name, info in available_codecs().items() if info.available}
    assert set(declared) == ours - set(THEIRS)
