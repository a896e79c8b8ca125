"""The commands on recordings: what they say is what the recording says, and a damaged one is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")

from compressed_array.recording import CompressedRecordBuffer, FramelessRecordBuffer, RecordBuffer
from core_helpers.command_line import answer, complaint, text

KINDS = [RecordBuffer, CompressedRecordBuffer, FramelessRecordBuffer]
SIZE, STEPS = 40, 70


@pytest.fixture(params=KINDS, ids=lambda cls: cls.kind)
def game(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A ring that was written over, whose oldest step does not lie in the first row."""
    buffer = request.param(SIZE)
    for i in range(STEPS):
        frame = np.full((10, 12), i, np.uint8)
        buffer.add(frame, i / 2, i % 4, {"lives": 3, "place": np.float32([i, -i])}, done=i % 18 == 17)
    buffer.save(tmp_path / "game.rec")
    return buffer, tmp_path / "game.rec"


def test_inspect_says_what_the_recording_says(game: Any) -> None:
    buffer, file = game
    said = answer("inspect", file)
    assert said["kind"] == type(buffer).__name__
    about = said["recording"]
    assert (about["steps"], about["held"], about["size"]) == (STEPS, SIZE, SIZE)
    assert about["episodes"] == [
        {"number": one.number, "steps": len(one), "has_start": one.has_start, "has_end": one.has_end}
        for one in buffer.episodes()
    ]
    assert list(said["arrays"]) == buffer.names
    for name, array in said["arrays"].items():
        assert (array["items"], array["dtype"]) == (SIZE, str(buffer.memory(name).dtype))
    shown = text("inspect", file)
    assert "40 steps in a ring of 40, the last of 70; 3 episodes, 1 whole" in shown
    assert [line.split()[0] for line in shown.splitlines() if "plain" in line or "(10, 12)" in line] == buffer.names
    assert ("bytes of" in shown) == isinstance(buffer, CompressedRecordBuffer)


def test_inspect_of_one_that_grows(tmp_path: Path) -> None:
    buffer = RecordBuffer()
    buffer.add(np.zeros((4, 4)), 0, 0)
    buffer.save(tmp_path / "game.rec")
    assert "1 step; 1 episode, 0 whole" in text("inspect", tmp_path / "game.rec")


def test_a_strip_is_in_the_order_of_time(game: Any) -> None:
    buffer, file = game
    strip = file.with_name("strip.png")
    if not buffer.has_frames:
        assert "no pictures" in complaint("inspect", file, "--frames", strip, code=2)
        return
    iio = pytest.importorskip("imageio.v3")
    said = answer("inspect", file, "--frames", strip)["frames"]
    firsts = iio.imread(strip)[0, :: 12 + 2]  # a pixel of each picture: they are as wide as a frame, with a gap
    assert firsts.reshape(len(said["items"]), -1)[:, 0].tolist() == [STEPS - SIZE + item for item in said["items"]]


def test_verify_decodes_all_and_finds_what_was_changed(game: Any) -> None:
    buffer, file = game
    said = answer("verify", file)
    assert (said["ok"], said["arrays"], said["decoded_bytes"]) == (True, len(buffer.names), buffer.nbytes)
    data = file.read_bytes()
    for place in (10, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:place])
        assert str(file) in complaint("verify", file, code=1)
        file.write_bytes(data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :])
        assert str(file) in complaint("verify", file, code=1)


def test_every_field_can_be_taken_out(game: Any, tmp_path: Path) -> None:
    buffer, file = game
    assert "say which with --key" in complaint("convert", file, tmp_path / "a.npy", code=2)
    for name in buffer.names:
        answer("convert", file, tmp_path / "a.npy", "--key", name)
        held = buffer.features[name] if name in buffer.features else getattr(buffer, name)
        assert np.load(tmp_path / "a.npy").tobytes() == np.asarray(held[np.arange(SIZE)]).tobytes()


def test_all_of_it_becomes_an_archive(game: Any, tmp_path: Path) -> None:
    buffer, file = game
    said = answer("convert", file, tmp_path / "a.npz")
    assert list(said["arrays"]) == buffer.names
    with np.load(tmp_path / "a.npz") as archive:
        assert archive.files == buffer.names
        for name in buffer.names:
            held = buffer.features[name] if name in buffer.features else getattr(buffer, name)
            assert archive[name].tobytes() == np.asarray(held[np.arange(SIZE)]).tobytes()
    assert ", ".join(buffer.names) in text("convert", tmp_path / "a.npz", tmp_path / "b.npz")


def test_frames_are_measured_by_code_that_runs(game: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer, file = game
    monkeypatch.chdir(file.parent)
    parts = answer("recommend", file, "--codec", "gzip", "--codec", "none")["parts"]
    assert [part["name"] for part in parts] == (["frames"] if buffer.has_frames else buffer.names)
    for part in parts:
        names: dict[str, Any] = {}
        exec(part["code"], names)
        assert list(names["a"].shape) == part["shape"]
