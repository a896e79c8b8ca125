"""Items of another store are taken over undecoded: they are what numpy would put there, and nothing stays behind."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array import _heap
from compressed_array._array import pickling, transfer
from compressed_array._heap import OFFSET_BITS
from compressed_array._runtime import loading
from compressed_array._stores.frames import adoption, engine_native
from compressed_array._stores.frames.groups import ADDRESS_MASK, FREE
from compressed_array._stores.frames.store import FrameStore
from compressed_array.codecs.delta import Delta
from core_helpers.arrays import assert_same
from core_helpers.interruptions import Interruption
from core_helpers.streams import FRAME_CODECS, Screens, Stacked, assert_same_inside, check_store, frames_stored, pair

ENGINES = [True, False] if ca.has_numba() else [False]
# Depth, shape of a frame, axis of the stack: of frames that are coded, and of frames that are kept as rows.
SHAPES = [(4, (1, 20, 20), 0), (1, (20, 20), 0), (3, (17, 17, 1), 2), (4, (1, 6, 6), 0), (1, (17,), 0)]


@pytest.fixture(params=ENGINES, ids=["native" if native else "numpy" for native in ENGINES])
def _engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param and ca.has_numba():
        loading.native(
            "_stores.frames.kernels.write"
        )  # or a store would ask again and again whether there are kernels after all
        monkeypatch.setattr(engine_native, "is_usable", lambda frames: False)


class Writer:
    """Compresses steps of a stream by itself, and gives them away as bytes, so many at a time."""

    def __init__(self, stream: Any, steps: int, codec: Any, *, rests: bool = True) -> None:
        items = stream.items()
        self.rests = rests
        self.stream, self.arrays = stream, pair((steps, *items.shape), codec, items.ndim - 1)

    def next(self) -> tuple[bytes, Any, Any]:
        """A chunk, and the same as plain arrays."""
        steps = list(self.stream.steps(len(self.arrays[0])))
        for row, step in enumerate(steps):
            ca.write_pair(*self.arrays, row, step.obs, step.next_obs)
        if self.rests:  # or groups have frames of two chunks
            self.arrays[0].store.compact()
        plain = np.stack([step.obs for step in steps]), np.stack([step.next_obs for step in steps])
        return pickle.dumps(self.arrays, 5), *plain


class Ring:
    """Two arrays on one store, two plain ones, and where the next chunk goes."""

    def __init__(self, rows: int, items: Any, codec: Any) -> None:
        self.arrays = pair((rows, *items.shape), codec, items.ndim - 1)
        self.plains = [np.zeros(self.arrays[0].shape, np.uint8) for _ in range(2)]
        self.rows, self.at = rows, 0

    def take(self, data: bytes, *plain: Any) -> None:
        arrays, count = pickle.loads(data), len(plain[0])
        first = min(count, self.rows - self.at)
        ca.write_pair(*self.arrays, slice(self.at, self.at + first), arrays[0][:first], arrays[1][:first])
        if first < count:
            ca.write_pair(*self.arrays, slice(count - first), arrays[0][first:], arrays[1][first:])
        where = (self.at + np.arange(count)) % self.rows
        for mine, theirs in zip(self.plains, plain, strict=True):
            mine[where] = theirs
        self.at = (self.at + count) % self.rows

    def step(self, step: Any) -> None:
        ca.write_pair(*self.arrays, self.at, step.obs, step.next_obs)
        self.plains[0][self.at], self.plains[1][self.at] = step.obs, step.next_obs
        self.at = (self.at + 1) % self.rows

    def check(self) -> None:
        for array, plain in zip(self.arrays, self.plains, strict=True):
            assert_same(array, plain)
        check_store(*self.arrays)


def adopted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What stores will say from now on of groups that they are to take over."""
    said: list[bool] = []
    adopt = FrameStore.adopt

    def note(*arguments: Any) -> bool:
        said.append(adopt(*arguments))
        return said[-1]

    monkeypatch.setattr(FrameStore, "adopt", note)
    return said


@pytest.mark.usefixtures("_engine")
@pytest.mark.parametrize("codec", FRAME_CODECS)
@pytest.mark.parametrize("kind", ["calm", "busy", "noise"])
@pytest.mark.parametrize("how", SHAPES, ids=str)
def test_chunks_into_a_ring(how: Any, kind: str, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    depth, shape, axis = how
    writers = [Writer(Stacked(2, depth, shape, kind, axis=axis, seed=seed), 40, codec) for seed in range(2)]
    ring, said = Ring(100, writers[0].stream.items(), codec), adopted(monkeypatch)
    for turn in range(5):
        if ring.at == 80:  # or parts of chunks would be taken over, if they are not too small for it
            ring.at = 0
        ring.take(*writers[turn % 2].next())
    ring.check()
    assert said == [True] * 5
    for array, plain in zip(ring.arrays, ring.plains, strict=True):
        assert_same(pickle.loads(pickle.dumps(array)), plain)
    for step in writers[0].stream.steps(30):
        ring.step(step)
    writers[1].rests = False
    for _ in range(3):
        ring.take(*writers[1].next())
    ring.check()


@given(st.data())
def test_anything_in_between(data: st.DataObject) -> None:
    depth, shape, axis = data.draw(st.sampled_from(SHAPES))
    codecs = st.sampled_from([*FRAME_CODECS, "delta/3", "delta/64"])
    kind = st.sampled_from(["calm", "calm", "busy", "noise"])
    streams = [Stacked(2, depth, shape, data.draw(kind), axis=axis, seed=seed, episode=7 + seed) for seed in range(2)]
    writers = [
        Writer(stream, data.draw(st.integers(1, 50)), data.draw(codecs), rests=data.draw(st.booleans()))
        for stream in streams
    ]
    ring = Ring(60, streams[0].items(), data.draw(codecs))
    for _ in range(data.draw(st.integers(1, 12))):
        does = data.draw(st.sampled_from(["chunk", "chunk", "chunk", "steps", "one", "views", "other", "copy", "rest"]))
        writer = data.draw(st.sampled_from(writers))
        low = data.draw(st.integers(0, 30))
        if does == "chunk":
            ring.take(*writer.next())
        elif does == "steps":
            for step in writer.stream.steps(data.draw(st.integers(1, 20))):
                ring.step(step)
        elif does in ("one", "views"):
            chunk, *plain = writer.next()
            step, which = data.draw(st.sampled_from([1, 2, -1])), data.draw(st.integers(0, 1))
            key = (slice(None, None, step), slice(None) if does == "one" else slice(1))
            rows = plain[which][key]
            count = min(len(rows), 30)
            value = pickle.loads(chunk)[which][key][:count]
            ring.arrays[which][low : low + count, : rows.shape[1]] = value
            ring.plains[which][low : low + count, : rows.shape[1]] = rows[:count]
        elif does == "other":
            plain = writer.next()[1:]
            count = min(len(plain[0]), 30)
            cells = [ca.compress(part[:count], item_ndim=plain[0].ndim - 2, codec="gzip") for part in plain]
            ca.write_pair(*ring.arrays, slice(low, low + count), *cells)
            for mine, theirs in zip(ring.plains, plain, strict=True):
                mine[low : low + count] = theirs[:count]
        elif does == "copy":
            ca.write_pair(*ring.arrays, slice(low, low + 20), ring.arrays[0][5:25], ring.arrays[1][5:25])
            for plain in ring.plains:
                plain[low : low + 20] = plain[5:25].copy()
        else:
            ring.arrays[0].store.compact()
    ring.check()


@pytest.mark.usefixtures("_engine")
@pytest.mark.parametrize("codec", FRAME_CODECS)
def test_nothing_is_decoded_and_every_frame_is_there_once(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(Stacked(2, 4, (1, 20, 20), episode=1000), 64, codec)
    data, obs, next_obs = writer.next()
    arrays, ring = pickle.loads(data), Ring(200, obs[0], codec).arrays

    def read(*_: Any) -> None:
        raise AssertionError("something was decoded")

    with monkeypatch.context() as patch:
        patch.setattr(FrameStore, "read", read)
        ca.write_pair(*ring, slice(10, 74), *arrays)
        frames = frames_stored(ring[0].store)
        ring[0][100:164] = arrays[0]
    assert frames == frames_stored(arrays[0].store) < 2 * (64 + 8)
    assert_same(ring[0][10:74], obs)
    assert_same(ring[1][10:74], next_obs)
    assert_same(ring[0][100:164], obs)
    del arrays
    ring[0][...] = 0
    ring[1][...] = 0
    ring[0].store.compact()
    assert frames_stored(ring[0].store) == 0


def test_pairs_that_have_to_be_decoded_still_have_every_frame_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_adopted", lambda *_: False)
    writer = Writer(Stacked(2, 4, (1, 20, 20), episode=1000), 64, "delta")
    data, obs, next_obs = writer.next()
    ring = Ring(200, obs[0], Delta(stack_axis=0)).arrays
    ca.write_pair(*ring, slice(10, 74), *pickle.loads(data))
    assert frames_stored(ring[0].store) < 2 * (64 + 8)
    assert_same(ring[0][10:74], obs)
    assert_same(ring[1][10:74], next_obs)
    check_store(*ring)


@pytest.mark.parametrize("codec", FRAME_CODECS)
@pytest.mark.parametrize("kind", ["calm", pytest.param("busy", marks=pytest.mark.slow)])
def test_a_thousand_chunks_leave_nothing_behind(codec: str, kind: str) -> None:
    """From many stores, each with references and dictionaries of its own."""
    chunks = []
    for seed in range(24):
        writer = Writer(Stacked(1, 1, (24, 24), kind, episode=7, seed=seed), 48, codec)
        chunks += [writer.next() for _ in range(4)]
    ring, rng = Ring(192, np.zeros((1, 24, 24), np.uint8), codec), np.random.default_rng(0)
    store = ring.arrays[0].store
    frames, held = store._frames, []
    for turn in range(1000):
        ring.take(*chunks[rng.integers(len(chunks))])
        if turn % 50 == 49:
            held.append((store.nbytes, len(frames.groups.table), len(frames.layouts), len(frames.codecs)))
            assert len(frames.references) < 40
    nbytes, *tables = zip(*held, strict=True)
    assert max(nbytes[10:]) < 1.3 * max(nbytes[:10])
    assert all(max(table[10:]) == max(table[:10]) for table in tables)
    ring.check()


def cameras(seed: int, count: int) -> Any:
    """Pictures of which zstd is given what a reference foretells."""
    rng, background = np.random.default_rng(seed), np.random.default_rng(9).integers(0, 256, (32, 32))
    return np.clip(background + rng.integers(0, 3, (count, 32, 32)), 0, 255).astype(np.uint8)


@pytest.mark.skipif(not ca.has_zstd(), reason="zstd is missing")
@pytest.mark.usefixtures("_engine")
@pytest.mark.parametrize("room", [0, 1, 16])
def test_frames_that_references_foretell(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adoption, "MOST_TAKEN", room)
    ring, said = ca.zeros((400, 32, 32), np.uint8, item_ndim=2, codec="auto"), adopted(monkeypatch)
    plain = np.zeros(ring.shape, np.uint8)
    for turn in range(4):
        chunk = cameras(turn, 100)
        array = pickle.loads(pickle.dumps(ca.compress(chunk, item_ndim=2, codec="auto")))
        assert len(array.store._frames.references) > 1
        ring[100 * turn : 100 * turn + 100] = array
        plain[100 * turn : 100 * turn + 100] = chunk
    assert all(said)
    assert len(said) == 4
    assert ring.store._adoption._taken <= room
    assert_same(ring, plain)
    check_store(ring)


@pytest.mark.skipif(not ca.has_numba(), reason="there is one engine here")
@pytest.mark.parametrize("codec", FRAME_CODECS)
@pytest.mark.parametrize("what", ["calm", "busy", "noise", "camera", "numbers"])
def test_both_engines_take_over_alike(what: str, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adoption, "MOST_TAKEN", 1)
    chunks = []
    for seed in range(4):
        screens, rng = Screens(seed, (24, 24), what), np.random.default_rng(seed)
        values = cameras(seed, 120) if what == "camera" else None
        if what == "numbers":
            values = rng.integers(0, 40, (120, 24, 24)).astype("<f4").view(np.uint8)
        chunk = np.stack([screens.next() for _ in range(120)]) if values is None else values
        chunks.append(pickle.dumps(ca.compress(chunk, item_ndim=2, codec=codec)))
    shape = (480, *pickle.loads(chunks[0]).shape[1:])
    states = []
    for native in ENGINES:
        with pytest.MonkeyPatch.context() as patch:
            if not native:
                patch.setattr(engine_native, "is_usable", lambda frames: False)
            ring = ca.zeros(shape, np.uint8, item_ndim=2, codec=codec)
            for turn, chunk in enumerate(chunks):
                ring[120 * turn : 120 * turn + 120] = pickle.loads(chunk)
            states.append(pickling.take(ring))
            plain = np.concatenate([pickle.loads(chunk).read() for chunk in chunks])
            assert_same(ring, plain)
    assert_same_inside(*states)


def test_what_a_store_was_told_is_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short groups, given stacks, other items and parts of groups: what does not fit is decoded and written anew."""
    said = adopted(monkeypatch)
    stream = Stacked(1, 4, (1, 20, 20), episode=1000)
    plain = np.stack([step.obs[0] for step in stream.steps(100)])
    array = ca.compress(plain, item_ndim=3, codec=Delta(16))
    for codec in (Delta(4), Delta(stack_axis=0, frame_width=2), Delta(frame_width=0)):
        target = ca.zeros(plain.shape, np.uint8, item_ndim=3, codec=codec)
        target[...] = array
        assert_same(target, plain)
    assert said == [False] * 3
    target = ca.zeros(plain.shape, np.uint8, item_ndim=3, codec="delta")
    target[::7] = array[::7]
    target[[1, 3]] = array[[1, 3]]
    target[5, 1:] = array[5, 1:]
    target[8] = array[8]
    assert len(said) == 3
    with pytest.raises(ValueError, match="broadcast"):
        target[:3] = array[:4]
    with pytest.raises(ValueError, match="one item"):
        target[:3] = array[:1]
    wide = ca.zeros(plain.shape, np.uint16, item_ndim=3, codec="delta")
    wide[...] = array
    assert_same(wide, plain.astype(np.uint16))
    with pytest.raises(ca.LossyWriteError):
        target[:50] = wide[:50] + 300
    assert len(said) == 3
    target[...] = array
    assert said.pop()
    assert_same(target, plain)
    target.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        target[...] = array
    with pytest.raises(ValueError, match="read-only"):
        ca.write_pair(target, target, slice(None), array, array)


def test_an_array_and_itself() -> None:
    writer = Writer(Stacked(2, 4, (1, 20, 20)), 40, "delta")
    data, obs, next_obs = writer.next()
    array, expected = (
        ca.zeros((50, *obs.shape[1:]), np.uint8, item_ndim=3, codec="delta"),
        np.zeros((50, *obs.shape[1:])),
    )
    for low in (0, 5):
        ca.write_pair(array, array[:], slice(low, low + 40), *pickle.loads(data))
        expected[low : low + 40] = next_obs
    assert_same(array, expected.astype(np.uint8))
    check_store(array)


def test_a_stack_that_was_found_elsewhere_is_known_here() -> None:
    stream = Stacked(1, 4, (1, 20, 20), episode=1000)
    array = ca.compress(np.stack([step.obs[0] for step in stream.steps(60)]), item_ndim=3, codec="delta")
    target = ca.zeros(array.shape, np.uint8, item_ndim=3, codec="delta")
    target[...] = array
    assert target.store._policy.settings.layout.depth == 4


@pytest.mark.parametrize("dtype", ["<f4", ">u2", "<c16", "V7"])
def test_any_dtype(dtype: str) -> None:
    rng = np.random.default_rng(0)
    plain = np.repeat(np.frombuffer(rng.bytes(40 * 30 * np.dtype(dtype).itemsize), dtype).reshape(40, 30), 4, 0)
    array = ca.compress(plain, item_ndim=1, codec="delta")
    target = ca.zeros(plain.shape, plain.dtype, item_ndim=1, codec="delta")
    target[...] = array
    assert_same(target, plain)
    check_store(target)


def test_much_at_once_is_taken_over_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "SMALLER", 1)
    monkeypatch.setattr("compressed_array._runtime.chunks.CHUNK_BYTES", 100 * 1600)
    said = adopted(monkeypatch)
    writer = Writer(Stacked(2, 4, (1, 20, 20), "noise"), 150, "delta")
    ring = Ring(200, writer.stream.items(), "delta")
    ring.take(*writer.next())
    assert said == [True] * 3
    ring.check()
    refused: list[int] = []
    adopt = FrameStore.adopt

    def refuse_one(*arguments: Any) -> bool:
        refused.append(1)
        return len(refused) != 2 and adopt(*arguments)

    monkeypatch.setattr(FrameStore, "adopt", refuse_one)
    ring.at = 0
    ring.take(*writer.next())
    assert len(refused) == 2
    ring.check()


def test_what_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(Stacked(2, 4, (1, 20, 20)), 40, "delta")
    ring = Ring(100, writer.stream.items(), "delta")
    for _ in range(3):
        ring.take(*writer.next())
    arrays = pickle.loads(writer.next()[0])

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    for where, name in (
        (_heap.HostHeap, "append"),
        (type(ring.arrays[0].store._upkeep), "process_full"),
        (type(ring.arrays[0].store.engine), "retain"),
        (adoption.Adoption, "prepared"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, fail)
            with pytest.raises(MemoryError):
                ca.write_pair(*ring.arrays, slice(10, 50), *arrays)
        ring.check()


def needed_more_than_counted(*arrays: Any) -> str:
    """What of a store is taken for less needed than these arrays and its lanes need it, and what is lost to it."""
    store = arrays[0].store
    with store.epochs.writing:
        store._flush(thoroughly=True)
        frames = store._frames
        table, open_groups = frames.groups.table, frames.lanes.table["group"]
        held = open_groups[open_groups > 0] - 1
        before = table["before"][held].astype(np.int64)
        needed = [frames.needed(array._table.numbers) for array in arrays]
        counts = np.bincount(np.concatenate([*needed, held, before[before > 0] - 1]), minlength=len(table))
        used, free = np.flatnonzero(table["where"]), frames.groups.free[: frames.groups.counts[FREE]]
        live = np.zeros(len(frames.heap.live), np.int64)
        np.add.at(live, (table["where"][used] & ADDRESS_MASK) >> OFFSET_BITS, table["size"][used].astype(np.int64))
        if (table["uses"] < counts).any() or (frames.heap.live < live).any():
            return "freed twice"
        if sorted([*free.tolist(), *used.tolist()]) != list(range(len(table))):
            return "a group that is free and is not"
        return "kept" if (table["uses"] > counts).any() or (frames.heap.live > live).any() else ""


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("_engine")
@pytest.mark.parametrize("codec", [name for name in ("delta", "delta-zstd") if name in FRAME_CODECS])
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_an_interrupt_at_any_point_frees_nothing_twice(every: int, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALLEST_SEGMENT", "LARGEST_SEGMENT"):
        monkeypatch.setattr(_heap, name, 8192)  # so that segments die and are moved all the time
    writers = [Writer(Stacked(1, 1, (18, 18), seed=seed), 20, codec) for seed in range(3)]
    ring = Ring(50, writers[0].stream.items(), codec)
    for turn in range(6):
        ring.take(*writers[turn % 3].next())
    kept, interrupted = [], 0
    for nth in range(1, 4000, every):
        data, *plain = writers[nth % 3].next()
        arrays, low = pickle.loads(data), 7 * nth % 31
        try:
            with Interruption(nth, interrupt) as interruption:
                ca.write_pair(*ring.arrays, slice(low, low + 20), *arrays)
        except KeyboardInterrupt:
            interrupted += 1
        now = [array[low : low + 20].read() for array in ring.arrays]
        is_new = all(np.array_equal(a, b) for a, b in zip(now, plain, strict=True))
        for mine, theirs in zip(ring.plains, plain, strict=True):
            mine[low : low + 20] = theirs if is_new else mine[low : low + 20]
        for array, mine in zip(ring.arrays, ring.plains, strict=True):
            np.testing.assert_array_equal(array.read(), mine, err_msg=interruption.where)
        found = needed_more_than_counted(*ring.arrays)
        assert found in ("", "kept"), (found, interruption.where)
        if found:
            kept.append(interruption.where)
            ring = Ring(50, writers[0].stream.items(), codec)
            ring.take(*writers[0].next())
        if interruption.left > 0:
            break
    ring.check()
    assert interrupted > 300 / every
    assert len(kept) < max(interrupted / 50, 3), kept  # where Python may come between what is done and what says so


def test_beside_readers_and_the_other_way_round() -> None:
    """Nobody reads a mixture, and two that write to each other's store do not wait for each other for ever."""
    writers = [Writer(Stacked(2, 4, (1, 20, 20), seed=seed), 40, "delta") for seed in range(2)]
    rings = [Ring(40, writers[0].stream.items(), "delta") for _ in range(2)]
    chunks = [pickle.loads(writer.next()[0]) for writer in writers]
    plains = [chunk[0].read() for chunk in chunks]
    for ring in rings:
        ca.write_pair(*ring.arrays, slice(None), *chunks[0])
    errors: list[Any] = []
    is_over = threading.Event()

    def write(mine: Any, other: Any, chunk: Any) -> None:
        for turn in range(150):
            ca.write_pair(*mine, slice(None), *(chunk if turn % 2 else other))

    def read(arrays: Any) -> None:
        while not is_over.is_set():
            for row in range(40):
                got = arrays[0].read(row)
                if not any(np.array_equal(got[lane], plain[row, lane]) for plain in plains for lane in [0]):
                    errors.append(row)

    pairs = [ring.arrays for ring in rings]
    threads = [threading.Thread(target=write, args=(pairs[i], pairs[1 - i], chunks[i])) for i in range(2)]
    readers = [threading.Thread(target=read, args=(arrays,)) for arrays in pairs]
    for thread in [*threads, *readers]:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    is_over.set()
    for reader in readers:
        reader.join()
    assert not errors
    for arrays in pairs:
        check_store(*arrays)


def test_arrays_are_joined_undecoded(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(Stacked(2, 4, (1, 20, 20), episode=1000), 64, "delta")
    chunks = [writer.next() for _ in range(3)]
    arrays = [pickle.loads(data)[0] for data, *_ in chunks]
    expected = np.concatenate([obs for _, obs, _ in chunks])

    def read(*_: Any) -> None:
        raise AssertionError("something was decoded")

    with monkeypatch.context() as patch:
        patch.setattr(FrameStore, "read", read)
        joined = ca.concatenate(arrays)
    assert_same(joined, expected)
