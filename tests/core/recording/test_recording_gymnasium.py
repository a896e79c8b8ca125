"""What an agent plays in a Gymnasium environment is recorded, and nothing changes for it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from compressed_array.recording import (
    CompressedRecordBuffer,
    DummyRecordBuffer,
    FramelessRecordBuffer,
    RecordBuffer,
    RecordingError,
)

gymnasium = pytest.importorskip("gymnasium")


def corridor(render_mode: str | None = None, is_dict: bool = False) -> Any:
    class Corridor(gymnasium.Env[Any, Any]):
        """Says how far one has come, and is over at five; it is drawn as a bar."""

        metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  # as Gymnasium has it
        action_space = gymnasium.spaces.Discrete(3)
        vector = gymnasium.spaces.Box(0, 9, (2,), np.float32)
        observation_space = gymnasium.spaces.Dict(place=vector) if is_dict else vector

        def __init__(self) -> None:
            self.render_mode, self.place, self.drawn = render_mode, 0, 0
            self.memory, self.screen = np.zeros(2, np.float32), np.zeros((8, 10, 3), np.uint8)  # used again and again

        def seen(self) -> Any:
            place = self.memory
            place[:] = self.place, self.place / 2
            return {"place": place} if is_dict else place

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.place = 0
            return self.seen(), {}

        def step(self, action: Any) -> Any:
            self.place += int(action)
            return self.seen(), self.place / 4, self.place >= 5, False, {"place": self.place}

        def render(self) -> Any:
            self.drawn += 1
            self.screen[...] = 0
            self.screen[:, : self.place] = 200
            return self.screen

    return Corridor()


def wrapped(*args: Any, **kwargs: Any) -> Any:
    from compressed_array.recording.gymnasium import RecordEpisodes

    return RecordEpisodes(*args, **kwargs)


@pytest.mark.parametrize("frames", ["render", "observation", "function"])
@pytest.mark.parametrize("cls", [RecordBuffer, CompressedRecordBuffer])
def test_what_was_seen_before_each_step_is_recorded(cls: Any, frames: str) -> None:
    buffer, is_dict = cls(), frames == "function"
    source = (lambda observation: observation["place"]) if is_dict else frames
    env = wrapped(corridor("rgb_array", is_dict), buffer, source, features=lambda info: {"after": info["place"]})
    plain = corridor(is_dict=is_dict)
    expected = []
    for actions in ([1, 2, 2], [2, 2], [0, 2, 1, 2]):
        for one, other in zip(env.reset(seed=0), plain.reset(seed=0), strict=True):
            np.testing.assert_equal(one, other)
        places = [0]
        for action in actions:
            np.testing.assert_equal(env.step(action), plain.step(action))
            places.append(plain.place)
        expected.append((actions, places))
    assert [episode.has_end for episode in buffer.episodes()] == [True] * 3
    for episode, (actions, places) in zip(buffer.episodes(), expected, strict=True):
        assert episode.actions.tolist() == actions
        assert episode.features["after"].tolist() == places[1:]
        assert episode.rewards.tolist() == [place / 4 for place in places[1:]]
        seen = list(episode.iter_frames())
        if frames == "render":
            assert [int((frame[0, :, 0] == 200).sum()) for frame in seen] == places[:-1]
        else:
            assert [frame.tolist() for frame in seen] == [[place, place / 2] for place in places[:-1]]


def test_nothing_is_drawn_for_a_recording_without_frames() -> None:
    for buffer in (FramelessRecordBuffer(), DummyRecordBuffer()):
        env = wrapped(corridor("rgb_array"), buffer)
        env.reset()
        env.step(1)
        assert env.unwrapped.drawn == 0
        assert buffer.steps == 1


def test_what_cannot_be_recorded_is_refused() -> None:
    with pytest.raises(RecordingError, match="render_mode='rgb_array'"):
        wrapped(corridor(), RecordBuffer())
    with pytest.raises(RecordingError, match="not 'pixels'"):
        wrapped(corridor(), RecordBuffer(), "pixels")
    with pytest.raises(RecordingError, match="an observation is a Dict"):
        wrapped(corridor(is_dict=True), RecordBuffer(), "observation")


@pytest.mark.parametrize("cls", [FramelessRecordBuffer, DummyRecordBuffer])
def test_what_keeps_no_frames_asks_for_none(cls: Any) -> None:
    for env, frames in ((corridor(), "render"), (corridor(is_dict=True), "observation")):
        game = cls()
        played = wrapped(env, game, frames)
        played.reset()
        played.step(1)
        assert game.steps == 1


def test_environments_that_share_a_recording_are_noticed() -> None:
    shared, own = RecordBuffer(), DummyRecordBuffer()
    first, second = (wrapped(corridor(), shared, frames="observation") for _ in range(2))
    for env in (first, second):
        env.reset()
    first.step(1)
    with pytest.raises(RecordingError, match="a recording of its own"):
        second.step(1)
    assert len(shared) == 1
    second.reset()  # begins an episode, which is whole as long as nobody else plays
    second.step(1)
    for env in [wrapped(corridor(), own, frames="observation") for _ in range(2)]:
        env.reset()
        env.step(1)
    assert own.steps == 2


@pytest.mark.parametrize("buffer", [None, RecordBuffer, "game"])
def test_what_is_no_recording_is_refused_at_once(buffer: Any) -> None:
    with pytest.raises(TypeError, match="a recording, such as"):
        wrapped(corridor(), buffer, "observation")


def test_without_gymnasium_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import compressed_array.recording.gymnasium"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError: compressed_array.recording.gymnasium needs gymnasium" in run.stderr
