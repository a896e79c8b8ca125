"""`StatsTracker`: statistics of the last episodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from compressed_array_torch.errors import StepError

__all__ = ["StatsTracker"]

Floats = npt.NDArray[np.float64]


class TrackedStep(NamedTuple):
    """A step of all environments: which episodes it ends and why, and what it adds to each metric."""

    ended: npt.NDArray[np.bool_]
    metrics: dict[str, Floats]
    reasons: list[str | None]


class StatsTracker:
    """Adds up rewards, lengths and other metrics of `num_envs` environments, and keeps those of the last episodes.

    Args:
        num_envs: How many environments there are.
        category: What the names of the statistics begin with.
        max_ep_info_buffer: How many episodes are kept; None for all.
        extra_metrics_keys: What else of `infos` is added up, by name.
        done_reason_keys: Why episodes may end, to tell how many of them ended so.

    >>> tracker = StatsTracker(num_envs=2)
    >>> tracker.update(dones=[False, True], rewards=[1.0, 3.0])
    >>> tracker.get_statistics()["Rollout/rewards"]
    3.0
    """

    def __init__(
        self,
        num_envs: int,
        category: str = "Rollout",
        max_ep_info_buffer: int | None = 100,
        extra_metrics_keys: Iterable[str] | None = None,
        done_reason_keys: Iterable[str] | None = None,
    ) -> None:
        self.num_envs, self.category = num_envs, category
        self.metrics_keys = sorted({"lengths", "rewards", *(extra_metrics_keys or ())})
        self.done_reason_keys = sorted(set(done_reason_keys or ()))
        self.ep_info_buffer: deque[dict[str, float]] = deque(maxlen=max_ep_info_buffer)
        self.reset()

    def reset(self) -> None:
        """Forgets all episodes, and the sums of those that are still running."""
        self._sums: dict[str, Floats] = {key: np.zeros(self.num_envs) for key in self.metrics_keys}
        self._episodes = 0
        self.ep_info_buffer.clear()

    @property
    def trajectory_num(self) -> int:
        """Returns how many episodes have ended."""
        return self._episodes

    def update(
        self,
        dones: Any,
        rewards: Any,
        infos: Mapping[str, Any] | None = None,
        done_reasons: Sequence[str | None] | None = None,
    ) -> None:
        """Adds a step of all environments.

        Args:
            dones: Which episodes end with it.
            rewards: One for each environment; several of each are added up.
            infos: Other metrics, one value for each environment by name.
            done_reasons: Why episodes ended, None where they did not.
        """
        self.add_step(self.checked(dones, rewards, infos, done_reasons))

    def checked(
        self,
        dones: Any,
        rewards: Any,
        infos: Mapping[str, Any] | None = None,
        done_reasons: Sequence[str | None] | None = None,
    ) -> TrackedStep:
        """Returns what `update` would add, for `add_step`; a step that is not of these environments is refused.

        Args:
            dones: Which episodes end with it.
            rewards: One for each environment; several of each are added up.
            infos: Other metrics, one value for each environment by name.
            done_reasons: Why episodes ended, None where they did not.
        """
        ended = self._of_each("dones", dones).astype(bool)
        step = {"rewards": self._of_each("rewards", rewards), "lengths": np.ones(self.num_envs)}
        for key in self.metrics_keys:
            if key not in step and key in (infos or {}):
                step[key] = self._of_each(key, (infos or {})[key])
        reasons: list[str | None] = list(done_reasons if done_reasons is not None else ()) or [None] * self.num_envs
        if len(reasons) != self.num_envs:
            raise StepError(f"done_reasons has {len(reasons)} entries, and there are {self.num_envs} environments")
        return TrackedStep(ended, step, reasons)

    def add_step(self, step: TrackedStep) -> None:
        """Adds a step of all environments that was checked.

        Args:
            step: What `checked` returned for it.
        """
        ended, metrics, reasons = step
        for key, values in metrics.items():
            self._sums[key] += values
        for env in np.flatnonzero(ended).tolist():
            info = {f"ep_{key}": float(self._sums[key][env]) for key in self.metrics_keys}
            if reasons[env] is not None:
                info[f"ep_done_{reasons[env]}"] = 1.0
            self.ep_info_buffer.append(info)
            self._episodes += 1
        for sums in self._sums.values():
            sums[ended] = 0.0

    def add_episodes(self, episodes: Sequence[dict[str, float]]) -> None:
        """Adds episodes that another tracker has counted, such as one of another process.

        Args:
            episodes: What its `ep_info_buffer` says of them.
        """
        self.ep_info_buffer.extend(episodes)
        self._episodes += len(episodes)

    def get_statistics(self) -> dict[str, float]:
        """Returns the statistics of the last episodes, by name; nothing before the first one has ended.

        Of each metric the mean of an episode, with `_std`, `_min` and `_max`; under `Step/` the mean of a step; under
        `Done/` how many of the episodes ended for each reason, from 0 to 1.
        """
        statistics: dict[str, float] = {}
        values, lengths = self.get_raw_values(), sum(info["ep_lengths"] for info in self.ep_info_buffer)
        for key, of_episodes in values.items():
            if not len(of_episodes):
                return {}
            name = f"{self.category}/{key}"
            statistics |= {name: float(of_episodes.mean()), f"{name}_std": float(of_episodes.std())}
            statistics |= {f"{name}_min": float(of_episodes.min()), f"{name}_max": float(of_episodes.max())}
            if key != "lengths":
                statistics[f"{self.category}/Step/{key}"] = float(of_episodes.sum() / lengths)
        for reason in self.done_reason_keys:
            count = sum(f"ep_done_{reason}" in info for info in self.ep_info_buffer)
            statistics[f"{self.category}/Done/{reason}_rate"] = count / len(self.ep_info_buffer)
        return statistics

    def get_raw_values(self) -> dict[str, Floats]:
        """Returns the sums of each of the last episodes, by metric."""
        return {key: np.array([info[f"ep_{key}"] for info in self.ep_info_buffer]) for key in self.metrics_keys}

    def _of_each(self, name: str, values: Any) -> Floats:
        """Returns one number for each environment."""
        array = values.detach().double().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
        array = array.reshape(self.num_envs, -1) if array.size and array.size % self.num_envs == 0 else array
        if array.ndim != 2:
            raise StepError(f"{name} is of shape {np.shape(values)}, and there are {self.num_envs} environments")
        summed: Floats = array[:, 0].astype(np.float64) if array.shape[1] == 1 else array.sum(1, dtype=np.float64)
        return summed
