"""Arrays that were pickled once are unpickled for ever: what a pickle names stays where it is, and means the same."""

from __future__ import annotations

import pickle
import runpy
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import compressed_array as ca
from compressed_array._stores.cells import CellStore
from compressed_array._stores.frames.store import FrameStore
from core_helpers.arrays import assert_same
from core_helpers.streams import check_store

GOLDEN = Path(__file__).parents[1] / "golden"
# The checksum of those that are "checked" is not of payloads alone.
PROTOCOLS, NAMES, FORMS = (4, 5), ("cells", "stream", "part", "pair"), ("", "-checked")


def loaded(name: str, protocol: int, form: str) -> Any:
    return pickle.loads((GOLDEN / f"protocol-{protocol}-{name}{form}.pickle").read_bytes())


def expected(name: str) -> Any:
    made = runpy.run_path(str(GOLDEN / "make.py"))
    obs, next_obs = made["expected_stacks"]()
    return {"cells": made["expected"](), "stream": obs, "part": obs[5:50:3], "pair": (obs, next_obs)}[name]


def test_files_and_pickles_are_unchanged() -> None:
    """Every one is as it was committed, and none came or went without its line in the manifest."""
    manifest = dict(reversed(line.split("  ")) for line in (GOLDEN / "SHA256SUMS").read_text().splitlines())
    files = {path.name: path for path in GOLDEN.iterdir() if path.suffix in (".ca", ".pickle")}
    assert files.keys() == manifest.keys()
    assert {f"protocol-{n}-{name}{form}.pickle" for n in PROTOCOLS for name in NAMES for form in FORMS} <= files.keys()
    assert [name for name, path in files.items() if sha256(path.read_bytes()).hexdigest() != manifest[name]] == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", ["cells", "stream", "part"])
def test_an_array_is_what_it_was(name: str, protocol: int, form: str) -> None:
    array, plain = loaded(name, protocol, form), expected(name)
    assert type(array) is ca.CompressedArray
    assert type(array.store) is (CellStore if name == "cells" else FrameStore)
    assert ca.shorthand(array.codec) == ("gzip6" if name == "cells" else "delta")
    assert_same(array, plain)
    array[3], plain[3] = plain[1], plain[1].copy()
    assert_same(array, plain)
    if name != "cells":
        check_store(array)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_on_one_store_are_on_one_again(protocol: int, form: str) -> None:
    arrays, plains = loaded("pair", protocol, form), expected("pair")
    assert arrays[0].store is arrays[1].store
    for array, plain in zip(arrays, plains, strict=True):
        assert_same(array, plain)
    check_store(*arrays)
    obs = plains[0].copy()
    arrays[0][7] = obs[7] = plains[1][20]
    assert_same(arrays[0], obs)
    assert_same(arrays[1], plains[1])
    check_store(*arrays)
