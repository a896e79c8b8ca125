"""Transitions as SB3's algorithms store them, for any observation space, and comparing what buffers make of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces

# Pixels of four frames that follow each other, as VecFrameStack gives them.
STACKED = spaces.Box(0, 255, (4, 36, 36), np.uint8)
DICT = spaces.Dict(
    {
        "image": STACKED,
        "state": spaces.Box(-np.inf, np.inf, (17,), np.float32),
        "colour": spaces.Discrete(1000),
        "switches": spaces.MultiBinary(5),
    }
)
SPACES: dict[str, spaces.Space[Any]] = {
    "stacked": STACKED,
    "image": spaces.Box(0, 255, (3, 40, 40), np.uint8),
    "float image": spaces.Box(0, 1, (1, 36, 36), np.float32),
    "vector": spaces.Box(-np.inf, np.inf, (17,), np.float32),
    "double": spaces.Box(-np.inf, np.inf, (3,), np.float64),
    "words": spaces.Box(-5000, 5000, (60,), np.int16),
    "discrete": spaces.Discrete(1000),
    "multi discrete": spaces.MultiDiscrete([300, 7, 2]),
    "multi binary": spaces.MultiBinary(5),
}


class Step(NamedTuple):
    """What an off-policy algorithm adds; `next_obs` are true last observations where episodes end."""

    obs: Any
    next_obs: Any
    action: Any
    reward: Any
    done: Any
    infos: list[dict[str, Any]]


def play(
    space: spaces.Space[Any], actions: spaces.Space[Any], n_envs: int, steps: int, seed: int = 0
) -> Iterator[Step]:
    """Episodes of about 20 steps, of which some end by a time limit."""
    rng = np.random.default_rng(seed)
    actions.seed(seed)
    current = [first(space, rng) for _ in range(n_envs)]
    for _ in range(steps):
        after = [later(space, obs, rng) for obs in current]
        ends, limits = rng.random(n_envs) < 0.05, rng.random(n_envs) < 0.3
        action = np.array([actions.sample() for _ in range(n_envs)])
        infos = [{"TimeLimit.truncated": bool(end and limit)} for end, limit in zip(ends, limits, strict=True)]
        yield Step(stacked(current), stacked(after), action, rng.normal(size=n_envs), ends, infos)
        current = [first(space, rng) if end else obs for obs, end in zip(after, ends, strict=True)]


def first(space: Any, rng: np.random.Generator) -> Any:
    """How an episode begins."""
    if isinstance(space, spaces.Dict):
        return {key: first(part, rng) for key, part in space.spaces.items()}
    if space is STACKED:
        return np.repeat(frame(rng, space.shape[1:])[None], 4, axis=0)
    if isinstance(space, spaces.Box) and space.dtype == np.uint8:
        return frame(rng, space.shape)
    if isinstance(space, spaces.Box) and space.dtype.kind == "f":
        return rng.normal(size=space.shape).astype(space.dtype)
    if isinstance(space, spaces.Box):
        return rng.integers(int(space.low.min()), int(space.high.max()), space.shape).astype(space.dtype)
    if isinstance(space, spaces.Discrete):
        return np.int64(rng.integers(space.n))
    high = space.nvec if isinstance(space, spaces.MultiDiscrete) else 2
    return rng.integers(0, high, space.shape).astype(space.dtype)


def later(space: Any, obs: Any, rng: np.random.Generator) -> Any:
    """What comes after an observation."""
    if isinstance(space, spaces.Dict):
        return {key: later(part, obs[key], rng) for key, part in space.spaces.items()}
    if space is STACKED:
        return np.concatenate([obs[1:], moved(obs[-1], rng)[None]])
    if isinstance(space, spaces.Box) and space.dtype == np.uint8:
        return moved(obs, rng)
    return first(space, rng)


def frame(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return np.repeat(rng.integers(0, 255, (*shape[:-1], shape[-1] // 4), dtype=np.uint8), 4, axis=-1)


def moved(obs: Any, rng: np.random.Generator) -> Any:
    result = obs.copy()
    row = rng.integers(obs.shape[-2])
    result[..., row, 5:9] = rng.integers(255)
    return result


def stacked(parts: list[Any]) -> Any:
    if isinstance(parts[0], dict):
        return {key: np.stack([part[key] for part in parts]) for key in parts[0]}
    return np.stack(parts)


def assert_same(ours: Any, stock: Any) -> None:
    """Whether two samples are equal in every field, type and bit."""
    if isinstance(stock, torch.Tensor):
        assert isinstance(ours, torch.Tensor)
        assert (ours.dtype, ours.shape, ours.device) == (stock.dtype, stock.shape, stock.device)
        assert ours.numpy().tobytes() == stock.numpy().tobytes()
    elif isinstance(stock, dict):
        assert list(ours) == list(stock)
        for key in stock:
            assert_same(ours[key], stock[key])
    elif isinstance(stock, tuple):
        assert type(ours) is type(stock)
        for mine, theirs in zip(ours, stock, strict=True):
            assert_same(mine, theirs)
    else:
        assert stock is None
        assert ours is None


def seeded(seed: int, call: Any, *args: Any, **kwargs: Any) -> Any:
    """What a call returns when numpy's global generator, which SB3 draws from, starts from this seed."""
    np.random.seed(seed)  # noqa: NPY002 - there is no other that SB3 draws from
    result = call(*args, **kwargs)
    return list(result) if hasattr(result, "__next__") else result
