"""`Ball`: a small game to train on, which repeats under one seed. It needs nothing but gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

SIDE = 36  # the smallest image that the CNNs of SB3 and SBX take
TRACE = 12  # positions in a vector, so that it is long enough to be compressed
PUSHES = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)
SPACES: dict[str, spaces.Space[Any]] = {
    "image": spaces.Box(0, 255, (SIDE, SIDE, 1), np.uint8),
    "vector": spaces.Box(-np.inf, np.inf, (2 * TRACE,), np.float32),
    "place": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "long": spaces.Box(-np.inf, np.inf, (2 * TRACE * 6,), np.float32),
}


class Ball(gym.Env[Any, Any]):
    """A ball that is pushed about and should stay in the middle; at a wall, the episode terminates.

    :param sees: a key of `SPACES`, or a tuple of keys for a Dict
    """

    def __init__(self, sees: str | tuple[str, ...], continuous: bool = False) -> None:
        self.sees = sees
        is_dict = isinstance(sees, tuple)
        self.observation_space = spaces.Dict({key: SPACES[key] for key in sees}) if is_dict else SPACES[sees]
        self.action_space = spaces.Box(-1, 1, (2,), np.float32) if continuous else spaces.Discrete(len(PUSHES))
        self.background = np.random.default_rng(0).integers(0, 100, (SIDE, SIDE, 1), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.speed = self.np_random.normal(0, 0.1, 2).astype(np.float32)
        self.trace = np.zeros((TRACE, 2), np.float32)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        push = action if isinstance(self.action_space, spaces.Box) else PUSHES[action]
        self.speed += 0.1 * push + self.np_random.normal(0, 0.02, 2).astype(np.float32)
        self.trace = np.vstack([self.trace[:1] + 0.5 * self.speed, self.trace[:-1]])
        distance = float(np.abs(self.trace[0]).max())
        return self._seen(), 1 - distance, distance > 1, False, {}

    def action_masks(self) -> np.ndarray:
        return PUSHES @ self.trace[0] < 0.5  # no push towards a wall that is near

    def _seen(self) -> Any:
        return {key: self._part(key) for key in self.sees} if isinstance(self.sees, tuple) else self._part(self.sees)

    def _part(self, key: str) -> np.ndarray:
        if key == "image":
            image = self.background.copy()
            x, y = np.clip((self.trace[0] + 1) / 2 * (SIDE - 4), 0, SIDE - 4).astype(int)
            image[x : x + 4, y : y + 4] = 255
            return image
        parts = {"vector": self.trace, "place": self.trace[0], "long": np.tile(self.trace, (6, 1))}
        return parts[key].reshape(-1).copy()


def limited_ball(sees: str | tuple[str, ...], continuous: bool, limit: int) -> gym.Env[Any, Any]:
    """A ball whose episodes are truncated after `limit` steps, if they did not terminate before."""
    return TimeLimit(Ball(sees, continuous), limit)
