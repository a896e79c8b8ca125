"""A saved recording is loaded as it was, and one that was changed is refused by name."""

from __future__ import annotations

import json
import runpy
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array import recording
from compressed_array.recording import CompressedRecordBuffer, FramelessRecordBuffer, RecordBuffer

KINDS = [RecordBuffer, CompressedRecordBuffer, FramelessRecordBuffer]


def recorded(cls: Any, size: int | None = 60, steps: int = 100) -> Any:
    buffer = cls(size)
    for i in range(steps):
        frame = np.full((8, 6), i // 3, np.uint8)
        features = {"lives": i % 4, "place": np.zeros((), [("x", "<f4"), ("y", ">i2", (2,))])}
        buffer.add(frame, i / 2, np.array([i, -i], np.float32), features, done=i % 30 == 29)
    return buffer


def saved(cls: Any, folder: Path, **options: Any) -> Path:
    recorded(cls, **options).save(folder / "game.rec")
    return folder / "game.rec"


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the header of a file, under a checksum that is right."""
    raw = path.read_bytes()
    magic, length, _ = struct.unpack("<8sQI", raw[:20])
    header = json.loads(raw[20 : 20 + length])
    header = change(header) or header
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<8sQI", magic, len(text), zlib.crc32(text)) + text + raw[20 + length :])


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("size", [None, 60, 1000])
def test_a_recording_goes_on_after_loading(cls: Any, size: int | None, tmp_path: Path) -> None:
    path = saved(cls, tmp_path, size=size)
    one, other = recorded(cls, size), recording.load(path)
    assert type(other) is cls
    assert other.size == size
    for buffer in (one, other):
        for i in range(300):
            place = np.zeros((), [("x", "<f4"), ("y", ">i2", (2,))])
            buffer.add(np.full((8, 6), i % 250, np.uint8), i, np.zeros(2), {"lives": 1, "place": place}, done=i == 90)
    assert len(one) == len(other)
    for mine, theirs in zip(one.episodes(), other.episodes(), strict=True):
        assert (mine.number, mine.has_start, mine.has_end) == (theirs.number, theirs.has_start, theirs.has_end)
        assert mine.rewards.tobytes() == theirs.rewards.tobytes()
        assert mine.actions.tobytes() == theirs.actions.tobytes()
        assert {name: part.tobytes() for name, part in mine.features.items()} == {
            name: part.tobytes() for name, part in theirs.features.items()
        }
        if one.has_frames:
            assert np.array_equal(np.stack(list(mine.iter_frames())), np.stack(list(theirs.iter_frames())))


@pytest.mark.parametrize("kind", ["plain", "compressed", "frameless"])
def test_recordings_of_before_are_loaded(kind: str) -> None:
    folder = Path(__file__).parent / "golden"
    make = runpy.run_path(str(folder / "make.py"))
    buffer, steps = recording.load(folder / f"format-1-{kind}.rec"), make["expected"]()[-make["SIZE"] :]
    assert type(buffer) is make["KINDS"][kind]
    assert (buffer.size, buffer.steps) == (40, 60)
    assert [(one.number, len(one), one.has_start, one.has_end) for one in buffer.episodes()] == [
        (1, 10, False, True),
        (2, 20, True, True),
        (3, 10, True, False),
    ]
    if buffer.has_frames:
        np.testing.assert_array_equal(buffer.frames[np.arange(40)], [step[0] for step in steps])
    np.testing.assert_array_equal(buffer.rewards, [step[1] for step in steps])
    np.testing.assert_array_equal(buffer.actions, [step[2] for step in steps])
    for name in ("lives", "name"):
        np.testing.assert_array_equal(buffer.features[name], [step[3][name] for step in steps])
        assert buffer.features[name].dtype == steps[0][3][name].dtype


def declared(cls: Any) -> Any:
    """A recording whose columns were not made in the order of a step."""
    buffer = cls(60)
    buffer.declare("lives", (), np.int64)
    buffer.declare("actions", (2,), np.float32)
    for i in range(100):
        buffer.add(np.full((8, 6), i // 3, np.uint8), i / 2, np.array([i, -i], np.float32), {"lives": i % 4})
    return buffer


@pytest.mark.parametrize("cls", KINDS)
def test_columns_may_be_made_in_any_order(cls: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = declared(cls)
    buffer.save(tmp_path / "now.rec")
    monkeypatch.setattr("compressed_array.recording._file.OWN", ())  # as they were written at first
    buffer.save(tmp_path / "before.rec")
    monkeypatch.undo()
    assert (tmp_path / "now.rec").read_bytes() != (tmp_path / "before.rec").read_bytes()
    for name in ("now.rec", "before.rec"):
        other = recording.load(tmp_path / name)
        assert set(other.names) == set(buffer.names)
        assert other.rewards.tobytes() == buffer.rewards.tobytes()
        assert other.actions.tobytes() == buffer.actions.tobytes()
        assert other.features["lives"].tobytes() == buffer.features["lives"].tobytes()
        assert not buffer.has_frames or np.array_equal(other.frames[:], buffer.frames[:])


def test_compressed_frames_are_compressed_in_the_file(tmp_path: Path) -> None:
    buffers = [RecordBuffer(), CompressedRecordBuffer()]
    sizes = []
    for buffer in buffers:
        for i in range(600):
            buffer.add(np.full((84, 84), i // 100, np.uint8), 0, 0)
        buffer.save(tmp_path / "game.rec")
        sizes.append((tmp_path / "game.rec").stat().st_size)
    assert sizes[1] < sizes[0] / 50


def test_a_ring_takes_no_memory_for_steps_that_it_did_not_have(tmp_path: Path) -> None:
    path = saved(RecordBuffer, tmp_path, size=60)
    rewritten(path, lambda header: header.update(size=10**15, steps=60, oldest=0, starts=[0], number=0))
    buffer = recording.load(path)
    assert (len(buffer), buffer.size) == (60, 10**15)
    assert buffer.nbytes_stored < 10**5


@pytest.mark.parametrize("cls", KINDS)
def test_files_that_were_cut_or_changed_are_refused(cls: Any, tmp_path: Path) -> None:
    path = saved(cls, tmp_path, steps=50)
    raw = path.read_bytes()
    for end in [*range(40), *range(40, len(raw), 97), len(raw) - 1]:
        path.write_bytes(raw[:end])
        with pytest.raises(ca.CorruptFileError):
            recording.load(path)
    path.write_bytes(raw + b"\0")
    with pytest.raises(ca.CorruptFileError, match="added"):
        recording.load(path)


@pytest.mark.parametrize("cls", KINDS)
@given(data=st.data())
def test_any_changed_byte_is_noticed(cls: Any, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = saved(cls, folder, steps=50)
    raw = bytearray(path.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    with pytest.raises(ca.CorruptFileError):
        recording.load(path)


LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another format": lambda header: header.update(format=2),
    "an unknown kind": lambda header: header.update(kind="pickle"),
    "a kind that is none": lambda header: header.update(kind=[]),
    "another kind": lambda header: header.update(kind="plain" if header["kind"] != "plain" else "compressed"),
    "no size": lambda header: header.update(size=0),
    "a negative size": lambda header: header.update(size=-4),
    "a size in words": lambda header: header.update(size="many"),
    "a size that is a truth": lambda header: header.update(size=True),
    "a ring that is none": lambda header: header.update(size=None),
    "too few steps": lambda header: header.update(steps=50),
    "no steps": lambda header: header.update(steps=0, oldest=0),
    "many steps": lambda header: header.update(steps=10**30),
    "a negative step": lambda header: header.update(oldest=-1),
    "steps out of order": lambda header: header.update(oldest=header["steps"] + 1),
    "no episodes": lambda header: header.update(starts=[]),
    "episodes out of order": lambda header: header.update(starts=[60, 30]),
    "episodes to come": lambda header: header.update(starts=[0, 10**9]),
    "an episode that begins later": lambda header: header.update(starts=[header["oldest"] + 1]),
    "episodes of no number": lambda header: header.update(number=None),
    "no columns": lambda header: header.update(columns=[]),
    "columns that are none": lambda header: header.update(columns=7),
    "a column less": lambda header: header["columns"].pop(),
    "the same column twice": lambda header: header["columns"].append(header["columns"][-1]),
    "columns mixed up": lambda header: header["columns"].reverse(),
    "a name of a path": lambda header: header["columns"][-1].update(name="../../etc/passwd"),
    "a name that is none": lambda header: header["columns"][-1].update(name={}),
    "a size that is too large": lambda header: header["columns"][-1].update(nbytes=10**15),
    "a size that is negative": lambda header: header["columns"][-1].update(nbytes=-5),
    "another shape": lambda header: header["columns"][-1].update(shape=[10**12]),
    "a shape of nothing": lambda header: header["columns"][-1].update(shape=[]),
    "a shape without bounds": lambda header: header["columns"][-1].update(shape=[60, 0, 10**30], nbytes=0),
    "an object": lambda header: header["columns"][-1].update(dtype="|O"),
    "a dtype that is none": lambda header: header["columns"][-1].update(dtype="__import__('os')"),
    "a deep dtype": lambda header: header["columns"][-1].update(dtype=[[[[[[[]]]]]]]),
    "plain for compressed": lambda header: header["columns"][0].update(is_compressed=None),
    "compressed for plain": lambda header: header["columns"][-1].update(is_compressed=True),
    "a list": lambda header: [1, 2],
}


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("lie", LIES)
def test_headers_that_lie_are_refused(cls: Any, lie: str, tmp_path: Path) -> None:
    path = saved(cls, tmp_path)
    rewritten(path, LIES[lie])
    if cls is not CompressedRecordBuffer and lie == "plain for compressed":
        recording.load(path)  # where it is the truth
        return
    with pytest.raises(ca.CorruptFileError, match=r"game\.rec"):
        recording.load(path)


def test_a_dtype_that_cannot_be_written_down_is_refused_by_name(tmp_path: Path) -> None:
    overlapping = np.dtype({"names": ["a", "b"], "formats": ["u4", "u2"], "offsets": [0, 0]})
    buffer = RecordBuffer()
    buffer.add(np.zeros(2, overlapping), 0, 0)
    with pytest.raises(ca.UnsupportedDtypeError, match="file"):
        buffer.save(tmp_path / "game.rec")
    assert not list(tmp_path.iterdir())


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    ca.save(tmp_path / "array.ca", ca.zeros((10, 4)))
    with pytest.raises(ca.CorruptFileError, match=r"array\.ca: not a saved recording"):
        recording.load(tmp_path / "array.ca")
    path = saved(RecordBuffer, tmp_path)
    path.write_bytes(b"\x93CARREC2" + path.read_bytes()[8:])
    with pytest.raises(ca.CorruptFileError, match="upgrade"):
        recording.load(path)
    with pytest.raises(FileNotFoundError):
        recording.load(tmp_path / "nothing")
