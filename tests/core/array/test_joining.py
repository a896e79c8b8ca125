"""`ca.concatenate` gives what numpy's gives, and decodes nothing that lies in the store already."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array._runtime import chunks
from compressed_array._stores.cells import CellStore
from compressed_array._stores.frames.store import FrameStore
from core_helpers.arrays import assert_same
from core_helpers.codecs import CODECS


def steps(count: int, *, first: int = 0) -> Any:
    """Items that differ a little from those before."""
    values = np.zeros((count, 2, 40, 3), np.uint8)
    for i in range(count):
        values[i, :, : (first + i) % 40] = 1 + (first + i) % 7
    return values


def refuse_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("something was decoded")

    for store in (CellStore, FrameStore):
        monkeypatch.setattr(store, "read", read)
        monkeypatch.setattr(store, "read_pair", read)


@given(st.data())
def test_as_numpy_joins(data: st.DataObject) -> None:
    codec, axis = data.draw(st.sampled_from(CODECS)), data.draw(st.sampled_from([0, 1, -3, -4]))
    plain = steps(12)
    whole, other = ca.compress(plain, item_ndim=2, codec=codec), ca.compress(plain + 1, item_ndim=2, codec="gzip")
    parts: list[tuple[Any, Any]] = [(whole, plain)]
    for _ in range(data.draw(st.integers(0, 3))):
        low, step = data.draw(st.integers(0, 11)), data.draw(st.integers(1, 3))
        key = (slice(None), slice(low % 2, None)) if axis in (1, -3) else slice(low, None, step)
        kinds = [(whole[key], plain[key]), (other[key], plain[key] + 1), (plain[key] + 2, plain[key] + 2)]
        parts.append(kinds[data.draw(st.integers(0, 2))])
    order = data.draw(st.permutations(parts))
    joined = ca.concatenate([part for part, _ in order], axis)
    expected = np.concatenate([part for _, part in order], axis)
    assert_same(joined, expected)
    assert joined.item_shape == (40, 3)
    assert_same(whole, plain)
    joined[0] = 9
    expected[0] = 9
    assert_same(joined, expected)
    assert_same(whole, plain)
    assert_same(pickle.loads(pickle.dumps(joined)), expected)


def test_nothing_in_the_store_is_decoded(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = steps(20)
    array = ca.compress(plain, item_ndim=2, codec=codec)
    array[0]  # what is compiled is compiled
    with monkeypatch.context() as patched:
        refuse_to_read(patched)
        joined = ca.concatenate([array, array[3:9], array[::-1]])
    assert_same(joined, np.concatenate([plain, plain[3:9], plain[::-1]]))


def test_an_array_that_grows_holds_no_more_than_one_written_at_once(codec: str) -> None:
    plain = steps(600)
    grown = ca.compress(plain[:100], item_ndim=2, codec=codec)
    for low in range(100, 600, 50):
        grown = ca.concatenate([grown, plain[low : low + 50]])
    assert_same(grown, plain)
    at_once = ca.compress(plain, item_ndim=2, codec=codec)
    assert grown.store.nbytes <= 1.5 * at_once.store.nbytes + 64 * 1024


@pytest.mark.parametrize("first", [0, 5])
def test_an_array_that_begins_with_few_items_grows_to_a_stream(first: int) -> None:
    plain = steps(600)
    grown = ca.compress(plain[:first], item_ndim=2)
    for low in range(first, 600, 50):
        grown = ca.concatenate([grown, plain[low : low + 50]])
    assert_same(grown, plain)
    assert isinstance(grown.store, FrameStore)


def test_items_of_other_axes_are_joined_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = steps(200)
    array, other = ca.compress(plain, item_ndim=2, codec="gzip"), ca.compress(plain, item_ndim=1, codec="gzip")
    monkeypatch.setattr(chunks, "CHUNK_BYTES", plain[:10].nbytes)
    read, most = CellStore.read, []

    def noted(store: CellStore, numbers: Any, out: Any) -> None:
        most.append(out.nbytes)
        read(store, numbers, out)

    monkeypatch.setattr(CellStore, "read", noted)
    joined = ca.concatenate([array, other])
    assert 0 < max(most) <= plain[:10].nbytes
    assert_same(joined, np.concatenate([plain, plain]))


def test_what_was_joined_is_freed_with_the_last_array(codec: str) -> None:
    array = ca.compress(steps(100), item_ndim=2, codec=codec)
    store = array.store
    joined = ca.concatenate([array, array[:30], steps(20)])
    other = ca.zeros((1, 2, 40, 3), np.uint8, item_ndim=2, store=store)
    del array, joined
    gc.collect()
    other[0] = 3
    store.compact()
    if isinstance(store, FrameStore):
        assert np.count_nonzero(store._frames.groups.table["uses"]) <= 2 * 2  # two groups a lane
    else:
        assert int(store._heap.live.sum()) <= other.nbytes


def test_what_cannot_be_joined_is_said_by_name() -> None:
    array = ca.compress(steps(4), item_ndim=2, codec="none")
    with pytest.raises(ValueError, match="axis 2 is one of an item"):
        ca.concatenate([array, array], axis=2)
    with pytest.raises(ValueError, match="differ in more than axis 0"):
        ca.concatenate([array, np.zeros((4, 3, 40, 3), np.uint8)])
    with pytest.raises(ValueError, match="differ in more than axis 0"):
        ca.concatenate([array, np.zeros((40, 3), np.uint8)])
    with pytest.raises(TypeError, match="no compressed array among them"):
        ca.concatenate([np.zeros(3)])
    with pytest.raises(np.exceptions.AxisError):
        ca.concatenate([array], axis=4)


def test_what_does_not_fit_is_refused_and_loses_nothing() -> None:
    plain = steps(4)
    array = ca.compress(plain, item_ndim=2, codec="gzip")
    held = array.store.nbytes
    with pytest.raises(ca.LossyWriteError):
        ca.concatenate([array, np.full((1, 2, 40, 3), 300)])
    assert_same(array, plain)
    assert array.store.nbytes <= held + 4096
