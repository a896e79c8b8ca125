"""Pickles and copies: compressed, independent, and only as large as what they hold."""

from __future__ import annotations

import copy
import pickle
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array._array.pickling import unpickle
from compressed_array._stores.frames.store import FrameStore
from compressed_array.codecs.zstd import Zstd
from core_helpers.arrays import DTYPES, assert_same, random_bits
from core_helpers.codecs import CODECS

PLAIN = (np.arange(400 * 2000).reshape(400, 2000) // 97 % 5).astype(np.uint8)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_compressed_and_reads_back(codec: str, protocol: int) -> None:
    array = ca.compress(PLAIN, codec=codec)
    data = pickle.dumps(array, protocol)
    if codec != "none" and (codec != "delta" or ca.has_zstd()):  # each item is new, so that changes alone save nothing
        assert len(data) < PLAIN.nbytes / 4
    back = pickle.loads(data)
    assert_same(back, PLAIN)
    assert back.codec == array.codec
    assert back.store is not array.store
    back[1] = 9
    assert_same(array, PLAIN)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_pickle_keeps_every_dtype(dtype: np.dtype[Any], rng: np.random.Generator) -> None:
    plain = random_bits((5, 3, 4), dtype, rng)
    for item_ndim in (0, 1, 3):
        assert_same(pickle.loads(pickle.dumps(ca.compress(plain, item_ndim=item_ndim))), plain)


def test_a_view_pickles_its_own_cells_only(codec: str) -> None:
    array = ca.compress(PLAIN, codec=codec)
    small = pickle.dumps(array[3:400:100])
    # Frames come in groups, of which a view takes those along that it has a part of; dictionaries and references go
    # along whole.
    share, extra = 20, 2000
    if isinstance(array.store, FrameStore):
        frames = array.store._frames
        share, extra = 3, extra + sum(len(codec.dictionary or "") for codec in frames.codecs)
        extra += sum(reference.nbytes for reference in frames.references[1:])
    assert len(small) < len(pickle.dumps(array)) / share + extra
    assert_same(pickle.loads(small), PLAIN[3:400:100])
    assert_same(pickle.loads(pickle.dumps(array[::-1])), PLAIN[::-1])


def test_shared_and_unwritten_cells_stay_shared_and_unwritten() -> None:
    array = ca.full((50, 20, 1000), 7, np.uint8, item_ndim=1)
    array[0] = 0
    back = pickle.loads(pickle.dumps(array))
    assert_same(back, array.read())
    assert back.nbytes_stored < 30_000
    back[1, 1] = 1
    back[2:] = 0
    assert (back[1, 0] == 7).all()
    assert (back[1, 1] == 1).all()


def test_auto_goes_on_looking_after_a_journey(tmp_path: Path) -> None:
    array = ca.zeros((200, 4096), np.uint8)
    ca.save(tmp_path / "a.ca", array)
    calm = np.ones((200, 4096), np.uint8)
    for twin in (pickle.loads(pickle.dumps(array)), np.zeros_like(array), ca.load(tmp_path / "a.ca")):
        twin[...] = calm
        assert_same(twin, calm)
        twin[:, ::50] = 3
        assert twin.ratio > 5
        assert ca.shorthand(twin.codec) != "none"


def test_copies_that_were_dropped_do_not_pile_up() -> None:
    array = ca.full((10_000, 4), 1, np.uint8, codec="none")
    for _ in range(50):
        array.copy()
        array.swapaxes(0, 0).reshape(100, 100, 4).swapaxes(0, 1).reshape(-1, 4)
    assert len(array.store._released_later) <= 2


def test_payloads_travel_out_of_band() -> None:
    array = ca.compress(np.random.default_rng(0).integers(0, 256, (100, 1000)).astype(np.uint8), codec="none")
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(array, 5, buffer_callback=buffers.append)
    assert len(data) < 5000
    assert_same(pickle.loads(data, buffers=buffers), array.read())


def test_items_that_changed_on_the_way_are_refused() -> None:
    array = ca.compress(PLAIN, codec="rle")
    _, (cls, item_shape, dtype, cells, records) = array.__reduce_ex__(2)
    exported, *others = records
    for at in (0, len(exported["data"]) // 2, len(exported["data"]) - 1):
        changed = bytearray(exported["data"])
        changed[at] ^= 1
        with pytest.raises(ca.CorruptPayloadError, match="changed"):
            unpickle(cls, item_shape, dtype, cells, (exported | {"data": bytes(changed)}, *others))


@pytest.mark.parametrize("codec", ["delta/2", "auto", *({"delta-zstd"} & set(CODECS))])
def test_what_items_are_decoded_by_is_under_the_checksum_too(codec: str) -> None:
    """References, of which a bit changes most items, tables, and layouts."""
    rng, background = np.random.default_rng(0), np.random.default_rng(9).integers(0, 256, (32, 32))
    frames = background.astype(np.uint8).repeat(400, 0).reshape(32, 400, 32).swapaxes(0, 1).copy()
    frames[rng.random(frames.shape) < 0.02] = 9  # a picture that stays, so that it is worth a reference
    array = ca.compress(frames, item_ndim=2, codec=codec)
    _, (cls, item_shape, dtype, cells, records) = array.copy()[:350].__reduce_ex__(2)
    exported, *others = records
    assert_same(unpickle(cls, item_shape, dtype, cells, records), frames[:350])
    changes: list[dict[str, Any]] = [{"layouts": [layout._replace(depth=9) for layout in exported["layouts"]]}]
    for name, value in exported.items():
        for k, part in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(part, np.ndarray) and part.size:
                bits = part.copy()
                bits.reshape(-1).view(np.uint8)[part.nbytes // 2] ^= 1
                changes.append({name: [*value[:k], bits, *value[k + 1 :]] if isinstance(value, list) else bits})
    assert {"references", "size", "layouts"} <= {name for change in changes for name in change}
    for change in changes:
        with pytest.raises(ca.CorruptPayloadError, match="changed"):
            unpickle(cls, item_shape, dtype, cells, (exported | change, *others))


@pytest.mark.skipif(not ca.has_zstd(), reason="dictionaries are zstd's")
def test_a_dictionary_is_under_the_checksum_too() -> None:
    samples = np.repeat(np.random.default_rng(0).integers(0, 5, (300, 100), np.uint8), 9, axis=1)
    codec = Zstd.train(samples, dict_size=1024)
    assert codec.dictionary is not None
    _, (cls, item_shape, dtype, cells, records) = ca.compress(samples, codec=codec).__reduce_ex__(2)
    exported, *others = records
    assert exported["codecs"] == [codec]
    assert_same(unpickle(cls, item_shape, dtype, cells, records), samples)
    dictionary = bytearray(b64decode(codec.dictionary))
    dictionary[-1] ^= 1
    changed = Zstd(codec.level, bytes(dictionary))
    with pytest.raises(ca.CorruptPayloadError, match="changed"):
        unpickle(cls, item_shape, dtype, cells, (exported | {"codecs": [changed]}, *others))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda a: a.copy()])
def test_a_copy_is_independent_and_costs_nothing_until_it_differs(how: Any, codec: str) -> None:
    array = ca.compress(PLAIN, codec=codec)
    before = array.store.nbytes
    twin = how(array)
    assert array.store.nbytes < before + 4 * 600
    twin[5] = 1
    array[6] = 2
    expected, twin_expected = PLAIN.copy(), PLAIN.copy()
    expected[6], twin_expected[5] = 2, 1
    assert_same(array, expected)
    assert_same(twin, twin_expected)
    del array
    assert_same(twin, twin_expected)
    twin[...] = 0
    room = 150_000 if codec == "delta-zstd" else 20_000  # the tables, with a count of references by now; zstd's own
    assert twin.nbytes_stored < before + room


def test_memory_of_a_dropped_copy_is_reused() -> None:
    array = ca.compress(np.random.default_rng(0).integers(0, 256, (100, 10_000)).astype(np.uint8), codec="none")
    held = array.nbytes_stored
    for step in range(20):
        twin = array.copy()
        twin[...] = np.random.default_rng(step).integers(0, 256, (100, 10_000)).astype(np.uint8)
    del twin
    array[0] = 1
    assert array.nbytes_stored < 2 * held
