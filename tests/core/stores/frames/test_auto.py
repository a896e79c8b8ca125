"""`codec="auto"` on streams: it takes what the last frames take the least space with, and changes with them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array._stores.frames.groups import FROM_REFERENCE, SINCE_LAST
from compressed_array._stores.frames.store import FrameStore
from compressed_array.codecs.none import Raw
from core_helpers.arrays import assert_same
from core_helpers.streams import Screens, Stacked, check_store, record_kinds

SHAPE = (32, 32)
CHANGES = {"delta", "delta-zstd"}


def stream_of(kinds: list[str], each: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray[Any, Any]:
    screens, frames = Screens(0, shape), []
    for kind in kinds:
        screens.kind = kind
        frames += [screens.next() for _ in range(each)]
    return np.stack(frames)


def id_of(codec: Any) -> str:
    return str(ca.registry.parse_shorthand(ca.shorthand(codec))["id"])


def written(plain: np.ndarray[Any, Any], batch: int = 3) -> tuple[Any, list[str]]:
    """An array that the frames were written to, and what its codec was from time to time."""
    array = ca.zeros(plain.shape, plain.dtype, item_ndim=len(SHAPE), codec="auto")
    codecs = []
    for low in range(0, len(plain), batch):
        array[low : low + batch] = plain[low : low + batch]
        codecs.append(id_of(array.codec))
    return array, codecs


def test_calm_frames_are_stored_as_changes() -> None:
    plain = stream_of(["calm"], 900)
    array, codecs = written(plain)
    assert set(codecs) <= CHANGES
    if codecs[-1] == "delta":
        kinds = record_kinds(array.store.export(array.cells.numbers.reshape(-1))[0])
        assert np.isin(kinds, [SINCE_LAST, FROM_REFERENCE]).mean() > 0.85  # all but the first of a group
    assert array.nbytes_stored < 0.25 * plain.nbytes
    assert_same(array, plain)


def test_noise_is_stored_as_it_is() -> None:
    plain = stream_of(["noise"], 900)
    array, codecs = written(plain)
    assert array.codec == Raw()
    assert codecs[-1] == id_of(Raw())
    assert array.nbytes_stored <= 1.02 * plain.nbytes + 64 * 1024
    assert_same(array, plain)


@pytest.mark.skipif(not ca.has_zstd(), reason="zstd is missing")
def test_busy_frames_go_through_zstd() -> None:
    plain = stream_of(["busy"], 900)
    array, codecs = written(plain)
    assert codecs[-1] in ("zstd", "delta-zstd")
    assert array.nbytes_stored < 0.25 * plain.nbytes
    assert_same(array, plain)


@pytest.mark.parametrize("kinds", [["calm", "noise"], ["noise", "calm"], ["busy", "calm"], ["calm", "busy", "noise"]])
def test_the_choice_follows_the_stream(kinds: list[str]) -> None:
    busy = {"zstd", "delta-zstd"} if ca.has_zstd() else None
    expected = {"calm": CHANGES, "noise": {id_of(Raw())}, "busy": busy}
    plain = stream_of(kinds, 2400)
    array, codecs = written(plain)
    each = len(codecs) // len(kinds)
    for i, kind in enumerate(kinds):
        if expected[kind] is not None:
            assert codecs[(i + 1) * each - 1] in expected[kind], kind
        assert_same(array[i * 2400 : i * 2400 + 100], plain[i * 2400 : i * 2400 + 100])
    assert_same(array, plain)
    check_store(array)


def test_a_mixture_is_never_larger_than_raw() -> None:
    screens = [Screens(k, SHAPE, kind) for k, kind in enumerate(["calm", "noise", "busy"])]
    plain = np.stack([screens[t % 3].next() for t in range(900)])
    array, _ = written(plain)
    assert array.nbytes_stored <= 1.02 * plain.nbytes + 64 * 1024
    assert_same(array, plain)


def test_the_choice_is_made_again_after_a_journey(tmp_path: Path) -> None:
    plain = stream_of(["noise"], 600)
    array, _ = written(plain)
    ca.save(tmp_path / "a.ca", array)
    for back in (pickle.loads(pickle.dumps(array)), ca.load(tmp_path / "a.ca")):
        assert back.store.codec_choice == "auto"
        assert_same(back, plain)
        calm = stream_of(["calm"], 600)
        for low in range(0, 600, 3):
            back[low : low + 3] = calm[low : low + 3]
        assert id_of(back.codec) in CHANGES
        assert_same(back, calm)
        check_store(back)


def test_stacks_are_found_and_calm(rng: np.random.Generator) -> None:
    stream = Stacked(2, 4, (1, 24, 24))
    array = ca.zeros((200, 2, 4, 24, 24), np.uint8, item_ndim=3)
    plain = np.zeros(array.shape, np.uint8)
    for t, step in enumerate(stream.steps(200)):
        array[t], plain[t] = step.obs, step.obs
    assert id_of(array.codec) in CHANGES
    assert array.nbytes_stored < 0.1 * plain.nbytes
    assert_same(array, plain)


@pytest.mark.parametrize(
    ("shape", "item_ndim", "is_stream"),
    [
        ((32, 20), 1, True),
        ((31, 20), 1, False),
        ((32, 4, 20), 1, True),
        ((31, 4, 20), 1, False),
        ((2, 16, 4, 20), 1, True),
        ((100, 0), 1, False),
        ((100, 20), 0, False),
        ((1000,), 0, True),
    ],
    ids=str,
)
def test_what_auto_takes_for_a_stream(shape: tuple[int, ...], item_ndim: int, is_stream: bool) -> None:
    array = ca.zeros(shape, np.uint8, item_ndim=item_ndim)
    if not (shape == (100, 20) and item_ndim == 0):
        assert isinstance(array.store, FrameStore) == is_stream
    plain = np.random.default_rng(0).integers(0, 5, shape).astype(np.uint8)
    array[...] = plain
    assert_same(array, plain)


WITHOUT_ZSTD = """
import pickle, sys
sys.modules["zstandard"] = None
if sys.argv[2] == "numpy":
    sys.modules["numba"] = None
import compressed_array as ca
assert not ca.has_zstd()
try:
    with open(sys.argv[1], "rb") as file:
        array = ca.load(sys.argv[1]) if sys.argv[1].endswith(".ca") else pickle.load(file)
    array.read()
except ca.CodecUnavailableError as error:
    assert "zstd" in str(error)
else:
    raise SystemExit("frames that zstd compressed were read without it")
"""


@pytest.mark.skipif(not ca.has_zstd(), reason="zstd is missing")
@pytest.mark.parametrize("name", ["a.ca", "a.pickle"])
@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_what_zstd_wrote_asks_for_zstd_where_that_is_missing(name: str, engine: str, tmp_path: Path) -> None:
    """A record is as likely zstd's as not, and the file does not say so in its header."""
    array = ca.compress(stream_of(["busy"], 60), codec="delta")
    ca.save(tmp_path / "a.ca", array)
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(array))
    subprocess.run([sys.executable, "-c", WITHOUT_ZSTD, str(tmp_path / name), engine], check=True, timeout=120)


@pytest.mark.parametrize("codec", ["delta", "auto"])
def test_groups_have_more_frames_where_less_changes(codec: str) -> None:
    """What bounds a read is how many bytes it walks through, not how many frames."""
    lengths = {}
    for kind in ("calm", "noise"):
        plain = stream_of([kind], 1600)
        array = ca.zeros(plain.shape, plain.dtype, item_ndim=len(SHAPE), codec=codec)
        for low in range(0, len(plain), 4):
            array[low : low + 4] = plain[low : low + 4]
        assert_same(array, plain)
        table = array.store._frames.groups.table
        lengths[kind] = int(table["count"][table["uses"] > 0].max())
    assert lengths["calm"] >= 32
    assert lengths["noise"] == 8


def test_groups_have_as_many_frames_as_they_are_told() -> None:
    plain = stream_of(["calm"], 1600)
    array = ca.compress(plain, codec="delta/5")
    assert array.store._frames.groups.table["count"].max() == 5
    assert_same(array, plain)


@pytest.mark.skipif(not ca.has_zstd() or not ca.has_numba(), reason="without zstd there is no dictionary")
def test_what_a_dictionary_will_make_of_groups_counts_before_there_is_one(rng: np.random.Generator) -> None:
    # The same figures here and there, as in most games: zstd knows them only when it has learnt them from many groups.
    sizes = {}
    frames = figures_on_the_move(rng, 2400)
    for codec in ("auto", "delta", "delta-zstd"):
        array = ca.zeros((600, 1, 4, 84, 84), np.uint8, item_ndim=3, codec=codec)
        for row in range(len(array)):
            array[row, 0] = frames[4 * row : 4 * row + 4]
        sizes[codec] = array.nbytes_stored
    assert sizes["delta-zstd"] < 0.75 * sizes["delta"]
    assert sizes["auto"] < 0.9 * sizes["delta"]


def figures_on_the_move(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    figures = rng.integers(1, 256, (6, 9, 8), np.uint8)
    frames = np.zeros((count, 84, 84), np.uint8)
    places = rng.integers(0, 75, (10, 2))
    for frame in frames:
        places = np.clip(places + rng.integers(-3, 4, places.shape), 0, 74)
        for number, (y, x) in enumerate(places):
            frame[y : y + 9, x : x + 8] = figures[number % len(figures)]
    return frames
