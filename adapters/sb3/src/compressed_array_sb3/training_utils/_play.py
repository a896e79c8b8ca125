"""The steps of a vectorized environment while a model plays, as SB3's off-policy algorithms would store them.

An episode ends with its own last observation and not with the first of the next; every done is passed on, that of a
lost life too; a VecNormalize is undone; continuous actions are scaled to [-1, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv, VecMonitor, VecNormalize, is_vecenv_wrapped, unwrap_vec_normalize

Array = npt.NDArray[Any]


class Predictor(Protocol):
    """A model, a policy, or anything else that chooses actions."""

    def predict(self, observation: Any, /, *, deterministic: bool) -> tuple[Any, Any]:
        """Returns actions and a state; one that is not None goes to the next call as `state`, with `episode_start`."""


class Step(NamedTuple):
    """One step of all environments: the arguments of `ReplayBuffer.add`, in its order, and the actions unscaled."""

    obs: Any
    next_obs: Any
    actions: Array
    rewards: Array
    dones: Array
    infos: list[dict[str, Any]]
    taken: Array

    @property
    def stored(self) -> tuple[Any, ...]:
        """What `ReplayBuffer.add` takes."""
        return self[:6]

    def split(self, n_envs: int) -> Iterator[Step]:
        """Yields the steps of the first `n_envs` environments, of the next ones, and so on."""
        if len(self.dones) == n_envs:
            yield self
            return
        for low in range(0, len(self.dones), n_envs):
            some = slice(low, low + n_envs)
            obs, after = (_some(part, some) for part in (self.obs, self.next_obs))
            rest = (part[some] for part in (self.actions, self.rewards, self.dones, self.infos, self.taken))
            yield Step(obs, after, *rest)  # type: ignore[arg-type]  # in their order


def _some(obs: Any, envs: slice) -> Any:
    return {key: part[envs] for key, part in obs.items()} if isinstance(obs, dict) else obs[envs]


def steps(env: VecEnv, model: Predictor | None, deterministic: bool) -> Iterator[Step]:
    """Yields steps from a reset on, without end; without a model, of random actions."""
    normalize = unwrap_vec_normalize(env)
    choose = _Random(env) if model is None else _Model(model, deterministic)
    obs = env.reset()
    plain = obs if normalize is None else normalize.get_original_obs()
    dones = np.ones(env.num_envs, bool)
    while True:
        actions = choose(obs, dones)
        obs, rewards, dones, infos = env.step(actions)
        new = obs
        if normalize is not None:
            new, rewards = normalize.get_original_obs(), normalize.get_original_reward()
        last = _before_reset(new, dones, infos, normalize)
        yield Step(plain, last, _scaled(actions, env.action_space), rewards, dones, infos, actions)
        plain = new


class Episodes:
    """Recognises where episodes end, and knows their total rewards.

    A Monitor tells both, in spite of clipped rewards and lost lives. Where there is none, each done ends an episode.
    """

    def __init__(self, env: VecEnv) -> None:
        everywhere = is_vecenv_wrapped(env, VecMonitor)
        self._monitored = [True] * env.num_envs if everywhere else env.env_is_wrapped(Monitor)
        self._running = np.zeros(env.num_envs)

    def ended(self, step: Step) -> list[tuple[int, float]]:
        """Returns the environment and the total reward of each episode that ends with this step."""
        self._running += step.rewards
        ended = []
        for i in np.flatnonzero(step.dones).tolist():
            if not self._monitored[i]:
                ended.append((i, float(self._running[i])))
            elif "episode" in step.infos[i]:
                ended.append((i, float(step.infos[i]["episode"]["r"])))
            self._running[i] = 0
        return ended


class _Random:
    def __init__(self, env: VecEnv) -> None:
        self._env = env

    def __call__(self, obs: Any, dones: Array) -> Array:
        return np.array([self._env.action_space.sample() for _ in range(self._env.num_envs)])


class _Model:
    def __init__(self, model: Predictor, deterministic: bool) -> None:
        self._predict: Callable[..., tuple[Any, Any]] = model.predict
        self._deterministic = deterministic
        self._state: Any = None

    def __call__(self, obs: Any, dones: Array) -> Array:
        # Only for a model with a state: any other may have a `predict` without these arguments.
        memory = {} if self._state is None else {"state": self._state, "episode_start": dones}
        actions, self._state = self._predict(obs, **memory, deterministic=self._deterministic)
        return np.asarray(actions)


def _before_reset(obs: Any, dones: Array, infos: list[dict[str, Any]], normalize: VecNormalize | None) -> Any:
    """Returns observations in which the last ones of episodes, which a reset has replaced, are put back."""
    ended = np.flatnonzero(dones).tolist()
    lasts = {i: infos[i]["terminal_observation"] for i in ended if infos[i].get("terminal_observation") is not None}
    if not lasts:
        return obs
    obs = deepcopy(obs)  # the model acts on the original
    for i, last in lasts.items():
        true: Any = last if normalize is None else normalize.unnormalize_obs(last)
        if isinstance(obs, dict):
            for key, part in obs.items():
                part[i] = true[key]
        else:
            obs[i] = true
    return obs


def _scaled(actions: Array, space: spaces.Space[Any]) -> Array:
    if not isinstance(space, spaces.Box) or not space.is_bounded():  # SB3 has no algorithm for the latter
        return actions
    scaled: Array = 2.0 * ((actions - space.low) / (space.high - space.low)) - 1.0
    return scaled
