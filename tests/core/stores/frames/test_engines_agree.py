"""The engine of kernels and the one of numpy: the same writes give the same numbers and the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array._array import pickling
from compressed_array._stores.frames import engine_native, residuals, stacks
from compressed_array._stores.frames.engine_native import NativeEngine
from compressed_array._stores.frames.engine_numpy import NumpyEngine
from compressed_array._stores.frames.settings import AS_ROWS, SMALL_FRAME
from compressed_array.codecs.delta import Delta
from core_helpers.arrays import assert_same
from core_helpers.streams import FRAME_CODECS, Screens, Stacked, assert_same_inside, check_store

pytestmark = pytest.mark.skipif(not ca.has_numba(), reason="there is one engine here")
Writes = list[tuple[Any, Any]]
COMPACT = object()  # instead of a key


def written(native: bool, shape: tuple[int, ...], dtype: Any, item_ndim: int, codec: Any, writes: Writes) -> Any:
    """An array that was written to by one of the engines."""
    with pytest.MonkeyPatch.context() as patch:
        if not native:
            patch.setattr(engine_native, "is_usable", lambda frames: False)
        array = ca.zeros(shape, dtype, item_ndim=item_ndim, codec=codec)
        for key, value in writes:
            array.store.compact() if key is COMPACT else array.__setitem__(key, value)
        engine = array.store.engine
    assert isinstance(engine, NativeEngine if native else NumpyEngine)
    return array


def compare(shape: tuple[int, ...], dtype: Any, item_ndim: int, codec: Any, writes: Writes) -> Any:
    """Write by both engines; the two arrays are the same inside, equal the plain one, and each reads the other's."""
    plain = np.zeros(shape, dtype)
    for key, value in writes:
        if key is not COMPACT:
            plain[key] = value
    arrays = [written(native, shape, dtype, item_ndim, codec, writes) for native in (True, False)]
    numbers = [array.cells.numbers.copy() for array in arrays]
    np.testing.assert_array_equal(*numbers)
    states = [pickling.take(array) for array in arrays]
    assert_same_inside(*states)
    for array, state in zip(arrays, reversed(states), strict=True):
        assert_same(array, plain)
        check_store(array)
        with pytest.MonkeyPatch.context() as patch:
            if array is arrays[1]:
                patch.setattr(engine_native, "is_usable", lambda frames: False)
            assert_same(pickling.rebuild(ca.CompressedArray, state), plain)  # what the other engine wrote
    return arrays[0]


def ring(stream: Stacked, steps: int, size: int) -> Writes:
    return [(t % size, step.obs) for t, step in enumerate(stream.steps(steps))]


@pytest.mark.parametrize("codec", [*FRAME_CODECS, "delta/1", "delta/3", "delta/64"])
@pytest.mark.parametrize("kind", ["calm", "busy", "noise"])
@pytest.mark.parametrize("depth", [1, 4])
def test_rings_of_several_lanes(codec: str, kind: str, depth: int) -> None:
    shape = (1, 20, 20) if depth > 1 else (20, 20)
    writes = ring(Stacked(3, depth, shape, kind), 150, 64)
    compare((64, *writes[0][1].shape), np.uint8, writes[0][1].ndim - 1, codec, writes)


@pytest.mark.parametrize("codec", FRAME_CODECS)
def test_a_stream_that_changes_its_nature(codec: str) -> None:
    stream, writes = Stacked(1, 1, (20, 20)), []
    for t in range(1200):
        if t % 300 == 0:
            stream.set_kind(["calm", "noise", "busy", "calm"][t // 300])
        writes.append((t % 700, stream.step().obs))
    compare((700, 1, 20, 20), np.uint8, 2, codec, writes)


@pytest.mark.skipif(not ca.has_zstd(), reason="zstd is missing")
@pytest.mark.parametrize("dtype", ["u1", "<u2"])
def test_a_camera_of_which_pixels_are_foretold(dtype: str) -> None:
    rng, (y, x) = np.random.default_rng(0), np.mgrid[:32, :32]
    smooth = 0.5 + 0.3 * np.sin(x / 7 + np.arange(200)[:, None, None] / 5) * np.cos(y / 9)
    top = np.iinfo(dtype).max
    plain = np.rint(smooth * top + rng.normal(0, top / 100, smooth.shape)).astype(dtype)
    array = compare((64, 32, 32), plain.dtype, 2, "auto", [(t % 64, frame) for t, frame in enumerate(plain)])
    assert array.store._policy.settings.prediction != residuals.NO_PREDICTION


@pytest.mark.parametrize("dtype", ["<f4", "<i8"])
def test_states_by_a_codebook(dtype: str) -> None:
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(200, 2, 90)).astype("<f2").astype(dtype) if dtype == "<f4" else None
    states = rng.integers(0, 999, (200, 2, 90)).astype(dtype) if plain is None else plain
    states[120:125], states[60:62] = 0, states[59]
    states[:, :, 7] = np.where(rng.random((200, 2)) < 0.1, -(2**20) + 1, states[:, :, 7])
    array = compare((64, 2, 90), states.dtype, 1, "auto", [(t % 64, items) for t, items in enumerate(states)])
    assert residuals.predictor(array.store._policy.settings.prediction) == residuals.BOOK


def test_a_stack_that_is_seen_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are looked at now and then are counted alike, by whichever way they are written."""
    monkeypatch.setattr(stacks, "TRY_AGAIN", 100)
    noise = Screens(1, (2, 4, 20, 20), "noise")
    writes: Writes = [(t % 70, noise.next()) for t in range(190)]
    writes += ring(Stacked(2, 4, (1, 20, 20)), 300, 70)
    array = compare((70, 2, 4, 20, 20), np.uint8, 3, "delta", writes)
    assert array.store._policy.settings.layout.depth == 4


@pytest.mark.parametrize("codec", FRAME_CODECS)
@pytest.mark.parametrize("length", [1, 17, 63, 64, 65])
def test_small_items_are_rows(codec: str, length: int) -> None:
    rng = np.random.default_rng(length)
    vectors = rng.normal(size=(300, 2, length)).astype(np.float32)
    writes: Writes = []
    for t in range(200):
        writes += [(2 * t % 120, vectors[t]), ((2 * t + 1) % 120, vectors[t + 1])]
    array = compare((120, 2, length), np.float32, 1, codec, writes)
    # Larger ones only where nothing makes them smaller, as of these numbers: "auto" alone looks for that.
    assert (array.store._policy.settings.mode == AS_ROWS) == (4 * length < SMALL_FRAME or codec == "auto")


@pytest.mark.parametrize("codec", FRAME_CODECS)
@pytest.mark.parametrize("depth", [1, 4])
def test_stores_that_rest_at_times(codec: str, depth: int) -> None:
    writes = ring(Stacked(3, depth, (1, 20, 20) if depth > 1 else (20, 20)), 150, 64)
    for t in (0, 1, 2, 50, 64, 65, 110, 150):
        writes.insert(t, (COMPACT, None))
    shape = writes[5][1].shape
    compare((64, *shape), np.uint8, len(shape) - 1, codec, writes)


@pytest.mark.parametrize("memory", ["channel-last", "holes", "backwards"])
def test_items_that_are_strided(memory: str) -> None:
    writes: Writes = []
    for t, step in enumerate(Stacked(2, 4, (16, 17, 1), axis=2).steps(80)):
        items = np.moveaxis(step.obs, -1, 1)
        if memory == "holes":
            items = np.repeat(np.ascontiguousarray(items), 2, axis=-1)[..., ::2]
        elif memory == "backwards":
            items = np.ascontiguousarray(items[:, :, ::-1])[:, :, ::-1]
        writes.append((t % 50, items))
    compare((50, 2, 4, 16, 17), np.uint8, 3, "delta", writes)


@pytest.mark.parametrize("depth", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("last", [False, True])
def test_stacks_of_every_depth(depth: int, last: bool) -> None:
    stream = Stacked(2, depth, (9, 9, 1) if last else (1, 9, 9), axis=2 if last else 0, episode=2 * depth)
    writes = ring(stream, 70, 40)
    axis = 2 if last else 0
    compare((40, *writes[0][1].shape), np.uint8, 3, Delta(5, axis, 1), writes)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    lanes=st.integers(1, 3),
    level=st.sampled_from([1, 2, 3, 8, 64]),
    width=st.sampled_from([0, 1, 2, None]),
    packs=st.booleans(),
)
def test_any_writes_anywhere(seed: int, lanes: int, level: int, width: int | None, packs: bool) -> None:
    rng = np.random.default_rng(seed)
    screens = [Screens(seed + k, (4, 9, 9), ["calm", "calm", "noise"][k]) for k in range(3)]
    writes: Writes = []
    items = np.stack([screens[0].next() for _ in range(lanes)])
    for _ in range(60):
        kind = int(rng.integers(0, 6))
        if kind < 3:  # the stacks move on, by a frame or by several
            new = kind + 1
            items = np.concatenate([items[:, new:], np.stack([screens[0].next()[:new] for _ in range(lanes)])], axis=1)
        elif kind == 3:
            items = np.stack([screens[int(rng.integers(3))].next() for _ in range(lanes)])
        if kind < 5:
            writes.append((int(rng.integers(0, 30)), items))
        else:
            rows, columns = rng.integers(0, 30, 7), rng.integers(0, lanes, 7)
            writes.append(((rows, columns), np.stack([screens[int(k) % 3].next() for k in rows])))
    name = "delta-zstd" if packs and ca.has_zstd() else "delta"
    codec = ca.get_codec({"id": name, "level": level, "stack_axis": None, "frame_width": width})
    compare((30, lanes, 4, 9, 9), np.uint8, 3, codec, writes)


def test_frames_that_zstd_hardly_shrinks() -> None:
    """Where a payload is about as long as the frame, the size of the buffer it goes to must not matter."""
    pytest.importorskip("zstandard")
    rng = np.random.default_rng(3)
    for shape in ((20, 20), (84, 84)):
        writes: Writes = []
        size = int(np.prod(shape))
        for t in range(120):
            frame = rng.integers(0, 256, size).astype(np.uint8)
            repeated = int(rng.integers(0, min(size // 2, 60)))
            frame[size - repeated :] = frame[:repeated]
            writes.append((t % 64, frame.reshape(1, *shape)))
        compare((64, 1, *shape), np.uint8, 2, "delta", writes)


@pytest.mark.parametrize("size", [300, 333])
def test_runs_at_both_ends_of_a_frame(size: int) -> None:
    """Kernels write short runs by whole words: what lies around them has to stay as it is."""
    frames = np.zeros((60, size), np.uint8)
    for t in range(1, 60):
        length = t % 11 + 1
        frames[t] = frames[t - 1]
        frames[t, -length:] += np.arange(1, length + 1, dtype=np.uint8)
        frames[t, :length] += np.uint8(t)
        frames[t, 100 : 100 + length] ^= np.uint8(255)
    writes = [(slice(t, t + 3), frames[t : t + 3]) for t in range(0, 60, 3)]
    compare(frames.shape, np.uint8, 1, "delta/16", writes)


def test_a_layout_that_is_given_holds_for_both_parts_of_a_read() -> None:
    writes = ring(Stacked(1, 4, (1, 20, 20)), 40, 40)
    for native in (True, False):
        array = written(native, (40, *writes[0][1].shape), np.uint8, 3, Delta(64, 0, 1), writes)
        store, numbers = array.store, array.cells.numbers.reshape(-1)[[7, 21, 30]]
        single = np.ones_like(store._frames.layout_table)
        single["inner"] = 400
        out, other_out = np.zeros((2, 3, 400), np.uint8)
        store.engine.read(numbers, out, numbers[::-1].copy(), other_out, layouts=single)
        np.testing.assert_array_equal(out, array[[7, 21, 30]].reshape(3, 4, 400)[:, -1])
        np.testing.assert_array_equal(other_out, out[::-1])
