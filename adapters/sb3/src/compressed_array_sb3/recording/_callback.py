"""`RecordCallback`: what a model plays while it trains, as episodes.

A step is recorded with the frame that was visible before it, the action that the environment was given and the reward
that it returned, before a VecNormalize changes them, and with the features that were asked for. An episode ends where a
Monitor says that it does, or with a done where there is no Monitor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecMonitor, is_vecenv_wrapped, unwrap_vec_normalize

from compressed_array.errors import RecordingError
from compressed_array.recording import BaseRecordBuffer, DummyRecordBuffer, FramelessRecordBuffer
from compressed_array_sb3.errors import BufferOptionError
from compressed_array_sb3.recording._pictures import PictureRecording

Feature = Callable[[dict[str, Any]], Any]


class RecordCallback(BaseCallback):
    """Records the environments of a training, one or all of them.

    >>> from stable_baselines3 import PPO
    >>> from compressed_array.recording import CompressedRecordBuffer
    >>> from compressed_array_sb3.recording import RecordCallback
    >>> game = CompressedRecordBuffer()
    >>> model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, device="cpu")
    >>> _ = model.learn(64, callback=RecordCallback(game, frames="observation"))
    >>> len(game), game.episode(0).frames.shape[1:]
    (64, (4,))
    >>> game = CompressedRecordBuffer()
    >>> features = {"value": lambda step: step["value"], "cut": lambda step: step["info"]["TimeLimit.truncated"]}
    >>> _ = model.learn(64, callback=RecordCallback(game, features=features))
    >>> game.features["value"].shape, bool(game.features["cut"].any())
    ((64,), False)

    Args:
        buffers: A recording, for one of the environments; or a sequence with a recording for each of them.
        frames: "observation" for what the model sees, "render" for the pictures of environments that were made with
            `render_mode="rgb_array"`, or a function that makes a frame of the observation of one environment.
        env: Which environment a single recording is of.
        features: What else to record of a step, by name: functions of a dict with what is known of the step of one
            environment. That is "env", its index; "info", what the environment returned, which is of the time after
            the step; "action" and "reward" as they are recorded; "done" as SB3 sees it; and from algorithms with a
            rollout buffer, such as PPO, "value" and "log_prob", what the model expected and the log-probability of what
            it did. A function returns a number, a text or an array, of one dtype and shape in all steps. If it does
            not, or fails, the training ends with an error that names the feature, and all steps before remain recorded.
        verbose: As in all callbacks of SB3.
    """

    def __init__(
        self,
        buffers: BaseRecordBuffer | Sequence[BaseRecordBuffer],
        frames: str | Callable[[Any], Any] = "observation",
        *,
        env: int = 0,
        features: Mapping[str, Feature] | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        if isinstance(frames, str) and frames not in ("render", "observation"):
            raise BufferOptionError(
                f"frames are 'render', 'observation' or a function of an observation, not {frames!r}"
            )
        given = [buffers] if isinstance(buffers, BaseRecordBuffer) or not np.iterable(buffers) else list(buffers)
        for buffer in given:
            if not isinstance(buffer, BaseRecordBuffer):
                raise TypeError(f"steps are added to recordings, such as CompressedRecordBuffer(), not to {buffer!r}")
        kept = [id(buffer) for buffer in given if not isinstance(buffer, DummyRecordBuffer)]
        if len(set(kept)) < len(kept):
            raise BufferOptionError("one recording for several environments would mix episodes: give each its own")
        _check_features(features, given)
        self._source, self._features = frames, dict(features or {})
        self._given, self._env = buffers if isinstance(buffers, BaseRecordBuffer) else given, env
        self.recordings: dict[int, BaseRecordBuffer] = {}  # of each environment that is recorded, by its index
        self._frames: dict[int, Any] = {}
        self._monitored: list[bool] = []
        self._has_begun = False

    def _init_callback(self) -> None:
        env = self.training_env
        if isinstance(self._given, BaseRecordBuffer):
            if not 0 <= self._env < env.num_envs:
                raise BufferOptionError(f"there is no environment {self._env} among {env.num_envs}")
            self.recordings = {self._env: self._given}
        else:
            self.recordings = dict(enumerate(self._given))
            if len(self.recordings) != env.num_envs:
                raise BufferOptionError(
                    f"{len(self.recordings)} recordings for {env.num_envs} environments: give one for each, or a "
                    "single one with env= for one of them"
                )
        has_frames = any(recording.has_frames for recording in self.recordings.values())
        if has_frames and self._source == "render" and (modes := set(env.get_attr("render_mode"))) != {"rgb_array"}:
            raise BufferOptionError(
                f"environments with render_mode={modes.pop()!r} give no pictures: make them with "
                "render_mode='rgb_array', or record frames='observation'"
            )
        everywhere = is_vecenv_wrapped(env, VecMonitor)
        self._monitored = [True] * env.num_envs if everywhere else env.env_is_wrapped(Monitor)

    def _on_training_start(self) -> None:
        # SB3 has reset the environments, unless training goes on where it stopped.
        if not self._has_begun or self.num_timesteps == 0:
            for recording in self.recordings.values():
                recording.end_episode()
        self._has_begun = True
        normalize = unwrap_vec_normalize(self.training_env)
        self._look(self.model._last_obs if normalize is None else normalize.get_original_obs())

    def _on_step(self) -> bool:
        told = self.locals
        actions = told.get("clipped_actions", told["actions"])  # what the environments were given
        normalize = unwrap_vec_normalize(self.training_env)
        rewards = told["rewards"] if normalize is None else normalize.get_original_reward()
        # Of all environments before any step is recorded, since a function may fail.
        judged = self._judged() if self._features else {}
        features = {
            i: self._features_of(i, actions[i], rewards[i], {name: values[i] for name, values in judged.items()})
            for i, recording in self.recordings.items()
            if self._features and not isinstance(recording, DummyRecordBuffer)
        }
        for i, recording in self.recordings.items():
            done = bool(told["dones"][i]) and (not self._monitored[i] or "episode" in told["infos"][i])
            recording.add(self._frames.get(i), rewards[i], actions[i], features.get(i), done=done)
        self._look(told["new_obs"] if normalize is None else normalize.get_original_obs())
        return True

    def _judged(self) -> dict[str, Any]:
        """Returns what an algorithm with a rollout buffer thinks of the step of each environment."""
        found = {}
        for name in ("value", "log_prob"):
            values = self.locals.get(f"{name}s")
            if values is not None:  # SBX's are arrays
                found[name] = np.asarray(values.cpu() if hasattr(values, "cpu") else values).flatten()
        return found

    def _features_of(self, i: int, action: Any, reward: Any, judged: dict[str, Any]) -> dict[str, Any]:
        """Returns the features of the step that environment `i` has made."""
        told = self.locals
        step = {"env": i, "info": told["infos"][i], "action": action, "reward": reward, "done": bool(told["dones"][i])}
        step |= judged
        values = {}
        for name, feature in self._features.items():
            try:
                value = feature(step)
            except Exception as error:
                raise RecordingError(
                    f"the feature {name!r} failed with {error!r}; of a step there are {', '.join(step)}, and in its "
                    f"info {', '.join(map(str, step['info'])) or 'nothing'}"
                ) from error
            if not _is_value(value):
                raise RecordingError(
                    f"the feature {name!r} is {value!r} in a step of environment {i}; a feature is a number, a "
                    "text or an array in every step"
                )
            values[name] = np.array(value)  # a copy: the function may fill one array again and again
        return values

    def _look(self, obs: Any) -> None:
        """Keeps the frames that the next step will be recorded with."""
        seen = [i for i, recording in self.recordings.items() if recording.has_frames]
        if self._source == "render":
            pictures = self.training_env.env_method("render", indices=seen) if seen else []
            self._frames = {i: np.array(picture) for i, picture in zip(seen, pictures, strict=True)}
            return
        for i in seen:
            one = {key: part[i] for key, part in obs.items()} if isinstance(obs, dict) else obs[i]
            # A copy: environments may draw the next frame over this one.
            self._frames[i] = np.array(one if isinstance(self._source, str) else self._source(one))


def _check_features(features: Any, recordings: Sequence[BaseRecordBuffer]) -> None:
    """Raises unless these are functions by names that all of the recordings can keep."""
    if features is None:
        return
    if not isinstance(features, Mapping) or not all(callable(feature) for feature in features.values()):
        raise BufferOptionError(f"features are functions of a step, by name, and not {features!r}")
    FramelessRecordBuffer().add(None, 0, 0, dict.fromkeys(features, 0))  # a recording knows which names it takes
    for recording in recordings:
        if features and isinstance(recording, PictureRecording):
            raise BufferOptionError(
                f"in a {type(recording).__name__} of compressed_array_sb3, features have no names: use the one of "
                "compressed_array.recording"
            )


def _is_value(value: Any) -> bool:
    try:
        return not np.asarray(value).dtype.hasobject
    except (RuntimeError, TypeError, ValueError):  # lists of several lengths, and tensors that numpy cannot see
        return False
