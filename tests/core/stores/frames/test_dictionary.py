"""`delta-zstd`: groups through zstd, with a dictionary that is learnt on the way and goes along on every journey."""

from __future__ import annotations

import pickle
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array._stores.frames import engine_native
from compressed_array._stores.frames.dictionaries import DICTIONARIES, Packing
from compressed_array._stores.frames.groups import FIRST_PACKED
from compressed_array.codecs.zstd import Zstd
from core_helpers.arrays import assert_same
from core_helpers.streams import check_store

pytestmark = [pytest.mark.long, pytest.mark.skipif(not ca.has_zstd(), reason="zstd is missing")]
LEVEL, SIDE = 4, 40


@pytest.fixture(autouse=True)
def pays(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dictionary is used as soon as it is learnt, though for the few frames here it is too large."""
    if "has_to_save" not in request.node.name:
        monkeypatch.setattr(Packing, "_pays", lambda *_: True)


def test_a_dictionary_has_to_save_more_than_it_takes() -> None:
    """A store of a few kilobytes must not hold a dictionary of hundreds."""
    few, plain = new_array(400), screens(400)
    for low in range(0, 400, 10):
        few[low : low + 10] = plain[low : low + 10]
    assert sum(codec.nbytes for codec in few.store._frames.codecs) == 0
    large = new_array(6000)
    plain = screens(6000)
    for low in range(0, 6000, 30):
        large[low : low + 30] = plain[low : low + 30]
    assert sum(codec.nbytes for codec in large.store._frames.codecs) < large.nbytes_stored / 2
    assert_same(large[:100], plain[:100])


def screens(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Sprites of a few kinds here and there before a background: what a dictionary is good for."""
    rng = np.random.default_rng(seed)
    sprites = rng.integers(0, 256, (6, 7, 9)).astype(np.uint8)
    frames = np.zeros((count, SIDE, SIDE), np.uint8)
    for frame in frames:
        for _ in range(4):
            y, x = rng.integers(0, SIDE - 9, 2)
            frame[y : y + 7, x : x + 9] = sprites[rng.integers(6)]
    return frames


def tags(array: Any) -> np.ndarray[Any, Any]:
    numbers = array.cells.numbers.reshape(-1)
    return np.asarray(array.store.export(numbers[numbers != 0])[0].tag)


def new_array(cells: int) -> Any:
    return ca.zeros((cells, SIDE, SIDE), np.uint8, codec=f"delta-zstd/{LEVEL}")


def trained(plain: np.ndarray[Any, Any]) -> Any:
    array = new_array(len(plain))
    for low in range(0, len(plain), 3):
        array[low : low + 3] = plain[low : low + 3]
    assert len(array.store._frames.codecs) == 2
    assert array.store._frames.codecs[1].dictionary is not None
    return array


@pytest.fixture(params=["kernels", "numpy"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the engines."""
    if request.param == "numpy":
        monkeypatch.setattr(engine_native, "is_usable", lambda frames: False)
    elif not ca.has_numba():
        pytest.skip("there are no kernels here")
    return str(request.param)


def test_a_dictionary_is_learnt_and_used_for_old_and_new_groups(engine: str) -> None:
    plain = screens(900)
    array = new_array(900)
    for low in range(0, 900, 3):
        array[low : low + 3] = plain[low : low + 3]
        if low % 90 == 0:
            assert_same(array[: low + 3], plain[: low + 3])
    assert len(array.store._frames.codecs) == 2
    assert_same(array, plain)
    packed = tags(array)
    assert (packed == FIRST_PACKED + 1).mean() > 0.9
    assert not (packed == FIRST_PACKED).any(), "groups from before were left as they were"
    check_store(array)


def test_a_larger_one_follows_when_there_is_more_to_learn_from(engine: str, tmp_path: Path) -> None:
    plain = screens(2200)
    array = new_array(2200)
    for low in range(0, 2200, 20):
        array[low : low + 20] = plain[low : low + 20]
    _, first, second = array.store._frames.codecs
    assert len(second.dictionary) > DICTIONARIES[0][1]
    assert (tags(array) == FIRST_PACKED + 2).mean() > 0.9, "groups from before were left as they were"
    assert FIRST_PACKED + 1 not in tags(array)
    assert first.dictionary is None, "a dictionary is kept of which no group has need"
    assert_same(array, plain)
    ca.save(tmp_path / "a.ca", array)
    for back in (ca.load(tmp_path / "a.ca"), pickle.loads(pickle.dumps(array))):
        back[:300] = plain[-300:]
        assert_same(back, np.concatenate([plain[-300:], plain[300:]]))
        assert len(back.store._frames.codecs) == 3
        check_store(back)
    check_store(array)


def test_a_larger_one_that_cannot_be_learnt_leaves_the_first_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, array = screens(2400), new_array(2400)
    array[:1200] = plain[:1200]
    assert len(array.store._frames.codecs) == 2

    def in_vain(*args: Any, **options: Any) -> None:
        raise ValueError("nothing in common")

    monkeypatch.setattr(Zstd, "train", in_vain)
    array[1200:] = plain[1200:]
    assert len(array.store._frames.codecs) == 2
    assert (tags(array) == FIRST_PACKED + 1).mean() > 0.9
    assert_same(array, plain)


def test_a_dictionary_is_not_a_copy_of_a_short_ring() -> None:
    """Groups that come to lie where others were are no more to learn from than there are."""
    plain, array = screens(3000), new_array(200)
    for low in range(0, 3000, 20):
        array[low % 200 : low % 200 + 20] = plain[low : low + 20]
    assert len(array.store._frames.codecs) <= 2
    assert_same(array, plain[-200:])


def test_readers_from_between_two_dictionaries(engine: str) -> None:
    """Nothing is packed by a dictionary that somebody does not know who is still reading."""
    plain, array = screens(6000), new_array(6000)
    store, at = array.store, 0
    packing, codecs = store._policy.packing, store._frames.codecs

    def write_until(done: Any) -> None:
        nonlocal at
        while not done():
            assert at < len(plain), "it never happened"
            array[at : at + 4] = plain[at : at + 4]
            at += 4

    with ExitStack() as first, ExitStack() as second:
        learn = packing.learn

        def beside_a_reader(groups: Any) -> None:
            first.enter_context(store.epochs.reading())
            packing.learn = learn
            learn(groups)

        packing.learn = beside_a_reader
        write_until(lambda: len(codecs) == 2)
        array[at : at + 4] = plain[at : at + 4]  # collects what it can, so that the next reader is of another epoch
        at += 4
        second.enter_context(store.epochs.reading())
        assert packing.codec == 0
        for _ in range(600):
            array[at : at + 4] = plain[at : at + 4]
            at += 4
        first.close()
        write_until(lambda: packing.codec > 0)
        assert packing.codec == 1
        assert not (tags(array) > FIRST_PACKED + 1).any(), "packed by what the second reader does not know"
    assert_same(array[:at], plain[:at])


def test_it_takes_less_space_than_without() -> None:
    plain = screens(1200)
    array = trained(plain)
    alone = ca.compress(plain, codec=f"delta/{LEVEL}")
    size = array.store._frames.groups.table["size"].sum()
    assert size < 0.6 * alone.store._frames.groups.table["size"].sum()


def test_the_dictionary_goes_along_and_is_used_there(engine: str, tmp_path: Path) -> None:
    plain = screens(900)
    array = trained(plain)
    ca.save(tmp_path / "a.ca", array)
    for back in (pickle.loads(pickle.dumps(array)), ca.load(tmp_path / "a.ca"), pickle.loads(pickle.dumps(array, 3))):
        assert back.store._frames.codecs[1].dictionary == array.store._frames.codecs[1].dictionary
        assert back.codec == array.codec
        assert_same(back, plain)
        more = screens(300, seed=5)
        for low in range(0, 300, 3):
            back[low : low + 3] = more[low : low + 3]
        assert_same(back, np.concatenate([more, plain[300:]]))
        assert (tags(back) == FIRST_PACKED + 1).mean() > 0.9, "what is written after a journey is packed without it"
        check_store(back)


def test_a_view_and_a_copy_keep_the_dictionary(tmp_path: Path) -> None:
    plain = screens(900)
    array = trained(plain)
    copy, view = array.copy(), array[10:40]
    ca.save(tmp_path / "a.ca", view)
    assert_same(ca.load(tmp_path / "a.ca"), plain[10:40])
    assert_same(pickle.loads(pickle.dumps(view)), plain[10:40])
    array[...] = 0
    assert_same(copy, plain)


@pytest.mark.parametrize("kind", ["noise", "still", "blank"])
def test_nothing_to_learn_is_no_error(kind: str, engine: str) -> None:
    rng = np.random.default_rng(0)
    plain = rng.integers(0, 256, (2400, SIDE, SIDE)).astype(np.uint8)
    if kind != "noise":
        plain[...] = 0
        plain[:, 0, 0] = np.arange(2400) % 251 if kind == "still" else np.arange(2400) % 2
    array = new_array(2400)
    for low in range(0, 2400, 3):
        array[low : low + 3] = plain[low : low + 3]
    assert_same(array, plain)
    check_store(array)


@pytest.mark.parametrize("rounds", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_readers_all_through_the_training(engine: str, rounds: int) -> None:
    """Groups are unpacked, packed anew and moved while somebody reads them."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(rounds):
            train_beside_readers(screens(700))
    finally:
        sys.setswitchinterval(interval)


def train_beside_readers(plain: np.ndarray[Any, Any]) -> None:
    array = new_array(len(plain))
    array[:60] = plain[:60]
    written, stop, failures = [60], threading.Event(), []

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not stop.is_set() and not failures:
            rows = rng.integers(0, written[0], 24)
            try:
                if not np.array_equal(array[rows], plain[rows]):
                    failures.append(f"other frames than were written: {rows}")
            except Exception as error:
                failures.append(repr(error))

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for reader in readers:
        reader.start()
    for low in range(60, len(plain), 4):
        array[low : low + 4] = plain[low : low + 4]
        written[0] = low + 4
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures, failures[0]
    assert_same(array, plain)
    assert len(array.store._frames.codecs) == 2
