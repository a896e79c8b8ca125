"""Payloads that were written once are decoded forever: a codec's format does not change under its id."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from compressed_array import CodecUnavailableError, available_codecs, get_codec
from compressed_array._runtime.payloads import Payloads

GOLDEN = Path(__file__).parent / "golden"
CONFIGS = sorted(GOLDEN.glob("*.json"))
SOURCES = sorted(GOLDEN.glob("*.npy"))


def test_corpus_is_there() -> None:
    """No codec without golden payloads, and no config without one for every source: an empty glob would pass."""
    ids = {json.loads(path.read_text())["id"] for path in CONFIGS}
    built_in = {name for name, info in available_codecs().items() if info.source == "built in"}
    assert ids == built_in
    assert len(SOURCES) == 4
    payloads = {path.name for path in GOLDEN.glob("*.payload")}
    assert payloads == {f"{config.stem}.{source.stem}.payload" for config in CONFIGS for source in SOURCES}


def test_corpus_is_unchanged() -> None:
    """Every file is as it was committed, and none came or went without its line in the manifest."""
    manifest = dict(reversed(line.split("  ")) for line in (GOLDEN / "SHA256SUMS").read_text().splitlines())
    files = {path.name: path for path in GOLDEN.iterdir() if path.name != "SHA256SUMS"}
    assert files.keys() == manifest.keys()
    changed = [name for name, path in files.items() if sha256(path.read_bytes()).hexdigest() != manifest[name]]
    assert changed == []


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_decodes(config: Path) -> None:
    try:
        codec = get_codec(json.loads(config.read_text()))
    except CodecUnavailableError as error:
        pytest.skip(str(error))
    for source in SOURCES:
        array = np.load(source)
        payload = (GOLDEN / f"{config.stem}.{source.stem}.payload").read_bytes()
        assert bytes(codec.decode(payload)) == array.tobytes()
        out = np.empty((1, array.nbytes), np.uint8)
        codec.decode_batch(Payloads.from_parts([np.frombuffer(payload, np.uint8)]), out)
        assert out.tobytes() == array.tobytes()


def test_twins_write_the_same() -> None:
    """`rle` and `rle-jit` are one format, in the corpus as well."""
    for source in SOURCES:
        one, other = (GOLDEN / f"{name}.{source.stem}.payload" for name in ("rle", "rle-jit"))
        assert one.read_bytes() == other.read_bytes()
