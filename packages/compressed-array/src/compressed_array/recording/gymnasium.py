"""`RecordEpisodes`: records while an agent plays in a Gymnasium environment, and changes nothing for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "compressed_array.recording.gymnasium needs gymnasium: pip install gymnasium", name=error.name
    ) from error

from compressed_array.errors import RecordingError
from compressed_array.recording._base import BaseRecordBuffer
from compressed_array.recording._buffers import DummyRecordBuffer

__all__ = ["RecordEpisodes"]


class RecordEpisodes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Records each step with what was to be seen before it.

    A recording is of one environment: give each part of a `SyncVectorEnv` its own. Those of an `AsyncVectorEnv` are in
    other processes, where what they record stays.

    >>> import gymnasium
    >>> from compressed_array.recording import RecordBuffer
    >>> from compressed_array.recording.gymnasium import RecordEpisodes
    >>> game = RecordBuffer()
    >>> env = RecordEpisodes(gymnasium.make("CartPole-v1"), game, frames="observation")
    >>> _ = env.reset(seed=0)
    >>> while not game.n_episodes or not game.episode(-1).has_end:
    ...     _ = env.step(0)
    >>> game.episode(0).frames.shape == (len(game), 4)
    True

    Args:
        env: What is played in. An episode that is left by a `reset` ends there.
        buffer: What the steps are added to, by this environment alone.
        frames: "render" for the pictures of an environment that was made with `render_mode="rgb_array"`,
            "observation" for what the agent sees, or a function that makes a frame of an observation.
        features: Makes named features of the `info` that a step gives; without it there are none.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        buffer: BaseRecordBuffer,
        frames: str | Callable[[Any], Any] = "render",
        features: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(env)
        if not isinstance(buffer, BaseRecordBuffer):
            raise TypeError(f"steps are added to a recording, such as CompressedRecordBuffer(), not to {buffer!r}")
        if isinstance(frames, str) and frames not in ("render", "observation"):
            raise RecordingError(f"frames are 'render', 'observation' or a function of an observation, not {frames!r}")
        if buffer.has_frames and frames == "render" and env.render_mode != "rgb_array":
            raise RecordingError(
                f"an environment with render_mode={env.render_mode!r} gives no pictures: make it with "
                "render_mode='rgb_array', or record frames='observation'"
            )
        is_composed = isinstance(env.observation_space, (gymnasium.spaces.Dict, gymnasium.spaces.Tuple))
        if buffer.has_frames and frames == "observation" and is_composed:
            raise RecordingError(
                f"a frame is one array, and an observation is a {type(env.observation_space).__name__}: take one out "
                "of it by a function, as in frames=lambda observation: observation['image']"
            )
        self.buffer = buffer
        self._source, self._features = frames, features
        self._frame: Any = None
        self._steps = buffer.steps  # when this environment last recorded something

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode, in the recording too."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.buffer.end_episode()
        self._steps = self.buffer.steps
        self._frame = self._look(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Plays a step and records it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        features = None if self._features is None else self._features(info)
        if self.buffer.steps != self._steps and not isinstance(self.buffer, DummyRecordBuffer):
            raise RecordingError(
                "something else has recorded into this buffer since this environment's last step, which would mix two "
                "episodes: give each environment a recording of its own"
            )
        self.buffer.add(self._frame, reward, action, features, done=bool(terminated or truncated))
        self._steps = self.buffer.steps
        self._frame = self._look(observation)
        return observation, reward, terminated, truncated, info

    def _look(self, observation: Any) -> Any:
        if not self.buffer.has_frames:
            return None
        if isinstance(self._source, str):
            frame = self.env.render() if self._source == "render" else observation
        else:
            frame = self._source(observation)
        return np.array(frame)  # a copy: environments may draw the next frame over this one
