"""A recording holds what lists of arrays hold, whatever is added, ended, written over, saved and loaded."""

from __future__ import annotations

import doctest
import importlib
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array import recording
from compressed_array.recording import (
    BaseRecordBuffer,
    CompressedRecordBuffer,
    DummyRecordBuffer,
    FramelessRecordBuffer,
    RecordBuffer,
    RecordingError,
)

KEEPING = [RecordBuffer, CompressedRecordBuffer, FramelessRecordBuffer]
FRAMES = {
    "picture": (np.uint8, (12, 10, 3)),
    "gray": (np.uint8, (16, 16)),
    "floats": (np.float32, (5,)),
    "number": (np.int64, ()),
    "nothing": (np.float64, (0, 3)),
    "words": ("U4", (2,)),
}
ACTIONS = {"discrete": (np.int64, ()), "continuous": (np.float32, (2,)), "large": (np.uint32, (1, 2))}


def some(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> Any:
    kind = np.dtype(dtype).kind
    if kind == "U":
        return rng.choice(["a", "long", ""], shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype) if kind == "f" else rng.integers(0, 250, shape).astype(dtype)[()]


class Oracle:
    """Lists: all steps, and where episodes begin."""

    def __init__(self, size: int | None) -> None:
        self.size, self.steps, self.starts = size, [], [0]  # type: ignore[var-annotated]  # of fields by name

    def end(self) -> None:
        if self.starts[-1] < len(self.steps):
            self.starts.append(len(self.steps))

    def held(self) -> range:
        return range(0 if self.size is None else max(0, len(self.steps) - self.size), len(self.steps))

    def episodes(self) -> list[tuple[int, list[dict[str, Any]], bool, bool]]:
        oldest, stops = self.held().start, [*self.starts[1:], len(self.steps)]
        found = []
        for number, (start, stop) in enumerate(zip(self.starts, stops, strict=True)):
            if part := self.steps[max(start, oldest) : stop]:
                found.append((number, part, start >= oldest, number + 1 < len(self.starts)))
        return found


def same(one: Any, other: list[Any]) -> None:
    plain = one.read() if isinstance(one, ca.CompressedArray) else one
    expected = np.stack([np.asarray(value) for value in other])
    assert plain.dtype == expected.dtype
    assert plain.shape == expected.shape
    assert plain.tobytes() == expected.tobytes()


def check(buffer: BaseRecordBuffer, oracle: Oracle) -> None:
    assert len(buffer) == len(oracle.held())
    assert buffer.steps == len(oracle.steps)
    expected = oracle.episodes()
    episodes = list(buffer.episodes())
    assert len(episodes) == buffer.n_episodes == len(expected)
    names = ["rewards", "actions"] + ["frames"] * buffer.has_frames
    for episode, (number, steps, has_start, has_end) in zip(episodes, expected, strict=True):
        assert (episode.number, len(episode)) == (number, len(steps))
        assert (episode.has_start, episode.has_end) == (has_start, has_end)
        for name in names:
            same(getattr(episode, name), [step[name] for step in steps])
        for name, column in episode.features.items():
            same(column, [step[name] for step in steps])
        if buffer.has_frames:
            same(np.stack(list(episode.iter_frames())), [step["frames"] for step in steps])
        else:
            assert episode.frames is None
    if len(buffer):
        held = [oracle.steps[i] for i in oracle.held()]
        for name in names:
            same(getattr(buffer, name), [step[name] for step in held])
        for name, column in buffer.features.items():
            same(column, [step[name] for step in held])
        item = sum(np.asarray(value).nbytes for name, value in held[0].items() if name in {*names, *buffer.features})
        assert buffer.nbytes == len(held) * item


OPS = st.lists(st.sampled_from(["add"] * 6 + ["done", "end", "refused", "check", "pickle", "save"]), max_size=60)


@pytest.mark.parametrize("cls", KEEPING)
@given(
    frames=st.sampled_from(sorted(FRAMES)),
    actions=st.sampled_from(sorted(ACTIONS)),
    size=st.sampled_from([None, 1, 2, 7, 40]),
    ops=OPS,
    seed=st.integers(0, 9),
    has_features=st.booleans(),
)
def test_a_recording_equals_lists(
    cls: Any, frames: str, actions: str, size: int | None, ops: list[str], seed: int, has_features: bool
) -> None:
    rng, buffer, oracle = np.random.default_rng(seed), cls(size), Oracle(size)
    for op in ops:
        if op in ("add", "done"):
            step = {
                "frames": some(rng, *FRAMES[frames]),
                "rewards": np.float64(rng.normal()),
                "actions": some(rng, *ACTIONS[actions]),
            }
            features = {"lives": np.int16(3), "file": rng.normal(size=(2, 2))} if has_features else {}
            buffer.add(step["frames"], step["rewards"], step["actions"], features or None, done=op == "done")
            oracle.steps.append(step | features)
            if op == "done":
                oracle.end()
        elif op == "end":
            buffer.end_episode()
            oracle.end()
        elif op == "refused" and oracle.steps:
            step = oracle.steps[-1]
            features = {name: step[name] for name in step.keys() - {"frames", "rewards", "actions"}}
            with pytest.raises(RecordingError):
                buffer.add(step["frames"], step["rewards"], step["actions"], features | {"more": 1})
            with pytest.raises(RecordingError):
                buffer.add(step["frames"], step["rewards"], np.zeros((7, 7)), features)
        elif op == "check":
            check(buffer, oracle)
        elif op == "pickle":
            buffer = pickle.loads(pickle.dumps(buffer))
        elif op == "save" and oracle.steps:
            with tempfile.TemporaryDirectory() as folder:
                buffer.save(Path(folder) / "game.rec")
                buffer = recording.load(Path(folder) / "game.rec")
            assert type(buffer) is cls
    check(buffer, oracle)


@pytest.mark.parametrize("size", [None, 700])
def test_rows_are_added_as_they_are_needed(size: int | None) -> None:
    buffers = [cls(size) for cls in KEEPING]
    oracle, picture = Oracle(size), np.zeros((20, 20), np.uint8)
    for i in range(1500):
        picture[i % 20, i % 13] = i % 256
        for buffer in buffers:
            buffer.add(picture, i, i % 5, done=i % 400 == 399)
        oracle.steps.append({"frames": picture.copy(), "rewards": np.float64(i), "actions": np.int64(i % 5)})
        if i % 400 == 399:
            oracle.end()
    for buffer in buffers:
        check(buffer, oracle)
    assert buffers[1].nbytes_stored < buffers[1].nbytes / 5
    assert "steps in " in repr(buffers[1])


def test_an_episode_stays_as_it_was_when_a_ring_goes_on() -> None:
    for cls in KEEPING[:2]:
        buffer = cls(50)
        for i in range(50):
            buffer.add(np.full((8, 8), i, np.uint8), i, i)
        stored = buffer.nbytes_stored
        episode, frames = buffer.episode(0), buffer.frames
        assert buffer.nbytes_stored >= stored  # though they share it
        for i in range(200):
            buffer.add(np.full((8, 8), 255, np.uint8), i, i)
        for seen in (episode.frames, frames):
            same(seen, [np.full((8, 8), i, np.uint8) for i in range(50)])


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    for cls in KEEPING:
        buffer = cls(3, dtypes={"frames": np.uint8, "actions": np.int8, "lives": np.uint8})
        with pytest.raises(RecordingError, match="'lives'"):
            buffer.add(np.zeros(3, np.uint8), 0, 1)
        for i in range(4):
            buffer.add(np.full(3, i), 0.5, i, {"lives": i})
        before = pickle.dumps([buffer.actions, buffer.rewards, buffer.features])
        with pytest.raises(ca.LossyWriteError, match=r"actions: .*300.*dtypes=\{'actions'"):
            buffer.add(np.zeros(3, np.uint8), 0, 300, {"lives": 1})
        with pytest.raises(ca.LossyWriteError, match="lives"):
            buffer.add(np.zeros(3, np.uint8), 0, 3, {"lives": -1})
        if buffer.has_frames:
            with pytest.raises(RecordingError, match=r"frames have shape \(3,\)"):
                buffer.add(np.zeros((1, 3), np.uint8), 0, 3, {"lives": 1})
        assert pickle.dumps([buffer.actions, buffer.rewards, buffer.features]) == before
        assert len(buffer) == 3


def test_a_write_that_fails_takes_nothing_from_a_full_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = CompressedRecordBuffer(4)
    for i in range(6):
        buffer.add(np.full((9, 9), i, np.uint8), i, i)

    def fail(self: Any, key: Any, value: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(ca.CompressedArray, "__setitem__", fail)
        with pytest.raises(MemoryError):
            buffer.add(np.zeros((9, 9), np.uint8), 0, 0)
    assert buffer.rewards.tolist() == [2, 3, 4, 5]
    assert buffer.frames.read()[:, 0, 0].tolist() == [2, 3, 4, 5]


def test_names_of_features_are_those_of_files() -> None:
    for name in ("", "a/b", "..\\a", "a\0", "frames", "rewards", "actions", 3, "\ud800"):
        with pytest.raises(RecordingError, match="name"):
            RecordBuffer().add(np.zeros(3), 0, 0, {name: 1})


def test_objects_and_empty_rings_are_refused() -> None:
    with pytest.raises(ca.UnsupportedDtypeError):
        RecordBuffer().add(np.zeros(3), 0, {"left": 1})
    with pytest.raises(ValueError, match="at least one row"):
        RecordBuffer(0)
    with pytest.raises(IndexError, match="0 are held"):
        RecordBuffer().episode(0)
    with pytest.raises(RecordingError, match="yet"):
        _ = RecordBuffer().rewards
    with pytest.raises(RecordingError, match="nothing to save"):
        RecordBuffer().save("nowhere")


def test_codecs_may_be_chosen() -> None:
    buffer = CompressedRecordBuffer(codec="gzip")
    for _ in range(300):
        buffer.add(np.zeros((30, 30)), 0, 0)
    assert buffer.frames.codec == ca.get_codec("gzip")


def test_a_wrong_codec_is_noticed_where_it_is_asked_for() -> None:
    with pytest.raises(ca.UnknownCodecError):
        CompressedRecordBuffer(codec="nope")


def test_an_episode_is_asked_for_by_a_number() -> None:
    game = RecordBuffer()
    game.add(np.zeros(3), 0, 0)
    assert game.episode(np.int64(0)).number == 0
    for wrong in (slice(0, 1), 0.0, "0"):
        with pytest.raises(TypeError):
            game.episode(wrong)  # type: ignore[arg-type]


def test_a_dummy_keeps_nothing(tmp_path: Path) -> None:
    buffer = DummyRecordBuffer(10, dtypes={"frames": np.uint8})
    buffer.add()
    buffer.add(np.zeros(3), 1.0, 2, {"lives": 3}, done=True)
    buffer.end_episode()
    buffer.save(tmp_path / "none")
    assert (len(buffer), buffer.steps, buffer.n_episodes, buffer.nbytes_stored) == (0, 2, 0, 0)
    assert not (tmp_path / "none").exists()
    assert isinstance(buffer, BaseRecordBuffer)


@pytest.mark.parametrize("module", ["", "._buffers", ".gymnasium"])
def test_the_examples_in_docstrings_run(module: str) -> None:
    if module == ".gymnasium":
        pytest.importorskip("gymnasium")
    done = doctest.testmod(importlib.import_module(f"compressed_array.recording{module}"))
    assert done.attempted
    assert not done.failed


@pytest.mark.parametrize("cls", KEEPING)
def test_fields_may_be_declared_before_the_first_step(cls: Any) -> None:
    buffer = cls(5)
    if buffer.has_frames:
        buffer.declare("frames", (3,), np.uint8)
        assert buffer.memory("frames").shape == (5, 3)
    else:
        with pytest.raises(RecordingError, match="keeps no frames"):
            buffer.declare("frames", (3,), np.uint8)
    buffer.declare("lives", (), np.int8)
    with pytest.raises(RecordingError, match="slashes"):
        buffer.declare("a/b", (), np.int8)
    with pytest.raises(RecordingError, match="'lives'"):
        buffer.add(np.zeros(3, np.uint8), 0, 0)
    for i in range(7):
        buffer.add(np.full(3, i, np.uint8), 0, i, {"lives": i})
    assert buffer.memory("lives").tolist() == [5, 6, 2, 3, 4]
    assert buffer.features["lives"].tolist() == [2, 3, 4, 5, 6]
    assert buffer.memory("actions")[0] == 5
    with pytest.raises(RecordingError, match="any more"):
        buffer.declare("more", (), np.int8)
    with pytest.raises(RecordingError, match="no more in"):
        buffer.memory("more")
    growing = cls()
    growing.declare("rewards", (), np.float32)
    growing.add(np.zeros(3, np.uint8), 0.5, 0)
    assert growing.rewards.dtype == np.float32
