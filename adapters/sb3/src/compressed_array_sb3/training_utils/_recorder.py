"""Filling replay buffers while a model plays, all of them with the same transitions."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from math import inf
from typing import Any

import numpy as np
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from compressed_array.recording import BaseRecordBuffer
from compressed_array_sb3.errors import BufferOptionError
from compressed_array_sb3.training_utils._play import Episodes, Predictor, Step, steps
from compressed_array_sb3.training_utils._progress import Progress

Buffers = ReplayBuffer | BaseRecordBuffer | Iterable[ReplayBuffer | BaseRecordBuffer] | None


class Recorder:
    """Adds each step to every buffer, and measures the seconds that each takes."""

    def __init__(self, buffers: Buffers, n_envs: int) -> None:
        self._given = _as_list(buffers)
        self.recordings = [buffer for buffer in self._given if isinstance(buffer, BaseRecordBuffer)]
        self.buffers = [buffer for buffer in self._given if not isinstance(buffer, BaseRecordBuffer)]
        self.seconds = [0.0] * len(self._given)
        for buffer in self.buffers:
            if not isinstance(buffer, ReplayBuffer):
                raise TypeError(
                    f"a {type(buffer).__name__} cannot be filled here, only a ReplayBuffer or a recording: a rollout "
                    "has values and log probabilities too, which nobody knows but the algorithm that collects it"
                )
            if n_envs % buffer.n_envs:
                raise ValueError(
                    f"a {type(buffer).__name__} for n_envs={buffer.n_envs} cannot take steps of {n_envs} environments: "
                    "their number must be a multiple of it"
                )
            if n_envs > buffer.n_envs and _looks_beyond_a_row(buffer):
                raise ValueError(
                    f"a {type(buffer).__name__} takes what follows a step from the next row, so it needs a column for "
                    f"each environment: make it with n_envs={n_envs}, not {buffer.n_envs}"
                )

    def play(
        self,
        env: VecEnv,
        model: Predictor | None,
        n_eps: int | None,
        *,
        close_env: bool,
        deterministic: bool,
        progress_bar: bool,
    ) -> tuple[list[float], list[float]]:
        """Plays episodes; returns their total rewards, and the seconds that each buffer took.

        Without `n_eps` it plays until all buffers are full; episodes that have not ended then are left out. Otherwise
        the episodes are divided among the environments beforehand, as SB3's `evaluate_policy` does, because those that
        end first are not a fair sample. An environment that is done with its share goes on until all are.
        """
        if n_eps is not None and n_eps < 1:
            raise ValueError(f"{n_eps} episodes cannot be played")
        shares = [inf if n_eps is None else (n_eps + i) // env.num_envs for i in range(env.num_envs)]
        returns: list[float] = []
        episodes = Episodes(env)
        rows = [-(-buffer.buffer_size * buffer.n_envs // env.num_envs) for buffer in self.buffers]
        total = max(rows) if n_eps is None else n_eps
        progress = Progress(total, f"{total} {'steps' if n_eps is None else 'episodes'}", progress_bar)
        try:
            for step in steps(env, model, deterministic):
                self._add(step)
                ended = episodes.ended(step)
                if any(i == 0 for i, _ in ended):
                    self._end_recorded()
                counted = [(i, score) for i, score in ended if shares[i]]
                for i, score in counted:
                    shares[i] -= 1
                    returns.append(score)
                progress.update(1 if n_eps is None else len(counted))
                if not any(shares) or (n_eps is None and all(buffer.full for buffer in self.buffers)):
                    break
        finally:
            progress.close()
            self._leave()
            if close_env:
                env.close()
        return returns, self.seconds

    def _add(self, step: Step) -> None:
        for i, buffer in enumerate(self._given):
            start = time.perf_counter()
            if isinstance(buffer, BaseRecordBuffer):
                buffer.add(_first(step.obs) if buffer.has_frames else None, step.rewards[0], step.taken[0])
            else:
                for part in step.split(buffer.n_envs):
                    buffer.add(*part.stored)
            self.seconds[i] += time.perf_counter() - start

    def _end_recorded(self) -> None:
        for recording in self.recordings:
            recording.end_episode()

    def _leave(self) -> None:
        """Marks where the last episodes were left, since what is added later does not continue them.

        Only in buffers that look beyond a transition. The episodes are not done, so they are marked as timed out where
        SB3 has a place for that.
        """
        self._end_recorded()
        for buffer in self.buffers:
            if isinstance(buffer, HerReplayBuffer):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # SB3 warns that it cuts the episode off
                    buffer.truncate_last_trajectory()
            elif isinstance(buffer, NStepReplayBuffer) and buffer.handle_timeout_termination:
                last = buffer.pos - 1
                buffer.timeouts[last] = np.logical_or(buffer.timeouts[last], buffer.dones[last] == 0)


def _first(obs: Any) -> Any:
    """Returns what the first environment showed, which has to be one array to be recorded."""
    if isinstance(obs, dict):
        raise BufferOptionError(
            "a frame is one array, and these observations are Dict: record with RecordEpisodes of "
            "compressed_array.recording.gymnasium, or RecordCallback, and frames=lambda obs: obs['image']"
        )
    return obs[0]


def _looks_beyond_a_row(buffer: ReplayBuffer) -> bool:
    return isinstance(buffer, (HerReplayBuffer, NStepReplayBuffer)) or buffer.optimize_memory_usage


def _as_list(buffers: Any) -> list[Any]:
    if buffers is None:
        return []
    return list(buffers) if isinstance(buffers, Iterable) else [buffers]
