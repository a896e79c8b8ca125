"""Streams of steps for buffers, and a record of them: each step carries a number, by which what comes out is found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

SHAPES: dict[str, tuple[Any, Any]] = {
    "images": ((4, 12, 12), torch.uint8),
    "vectors": ((5,), torch.float32),
    "wide": ((300,), torch.float64),
    "halves": ((200,), torch.bfloat16),
    "flags": ((3,), torch.bool),
    "numbers": ((), torch.int64),
    "tree": ({"camera": {"left": (12, 12), "right": (12, 12)}, "speed": (2,)}, None),
}
TREE_DTYPES = {"camera": {"left": torch.uint8, "right": torch.int16}, "speed": torch.float32}


def dtype_of(kind: str) -> Any:
    return TREE_DTYPES if kind == "tree" else SHAPES[kind][1]


@dataclass
class Step:
    """What one environment did once."""

    obs: Any
    next_obs: Any
    reward: float
    terminated: bool
    truncated: bool


@dataclass
class History:
    """Steps of `lanes` environments with observations of a kind, made when they are added to buffers."""

    kind: str
    lanes: int
    seed: int = 0
    ends: float = 0.1
    first: int = 0  # the number of the first step's first environment
    steps: list[list[Step]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = torch.Generator().manual_seed(self.seed)
        self._obs = self._observations()

    def _observations(self) -> Any:
        return random_items(SHAPES[self.kind][0], dtype_of(self.kind), self.lanes, self._rng)

    def add_to(self, *buffers: Any, as_numpy: bool = False, **fields: Any) -> None:
        """Makes a step, and adds it to buffers. The action is its number."""
        obs, after = self._obs, self._observations()
        terminated, truncated = (torch.rand(self.lanes, generator=self._rng) < self.ends for _ in range(2))
        reward, number = torch.randn(self.lanes, generator=self._rng), self.first + len(self.steps) * self.lanes
        action = torch.arange(number, number + self.lanes)
        self.steps.append(
            [
                Step(at(obs, i), at(after, i), float(reward[i]), bool(terminated[i]), bool(truncated[i]))
                for i in range(self.lanes)
            ]
        )
        given = {"terminated": terminated, "truncated": truncated, "next_obs": after, **fields}
        for buffer in buffers:
            if as_numpy:
                buffer.add(to_numpy(obs), action.numpy(), reward.numpy(), **{k: to_numpy(v) for k, v in given.items()})
            else:
                buffer.add(obs, action, reward, **given)
        # After an end most environments show something else than they did last.
        began = self._observations()
        ended = (terminated | truncated) & (torch.rand(self.lanes, generator=self._rng) < 0.9)
        self._obs = mix(ended, began, after)

    def step(self, number: int) -> Step:
        return self.steps[(number - self.first) // self.lanes][number % self.lanes]


def random_items(shape: Any, dtype: Any, lanes: int, rng: torch.Generator) -> Any:
    if isinstance(shape, dict):
        return {key: random_items(shape[key], dtype[key], lanes, rng) for key in shape}
    items = torch.randint(0, 4, (lanes, *shape), generator=rng)
    if dtype.is_floating_point:
        noise = torch.randn((lanes, *shape), generator=rng).to(dtype)
        odd = torch.tensor([0.0, -0.0, float("nan"), float("inf")], dtype=dtype)[items]
        return torch.where(torch.rand((lanes, *shape), generator=rng) < 0.2, odd, noise)
    return items.to(dtype)


def at(tree: Any, index: Any) -> Any:
    return {key: at(part, index) for key, part in tree.items()} if isinstance(tree, dict) else tree[index]


def mix(mask: torch.Tensor, first: Any, second: Any) -> Any:
    if isinstance(first, dict):
        return {key: mix(mask, first[key], second[key]) for key in first}
    return torch.where(mask.reshape(-1, *[1] * (first.ndim - 1)), first, second)


def to_numpy(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: to_numpy(part) for key, part in tree.items()}
    return tree if not isinstance(tree, torch.Tensor) or tree.dtype == torch.bfloat16 else tree.numpy()


def assert_same(actual: Any, expected: Any) -> None:
    """Equal bit for bit, of the same dtype, in trees of the same names."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key, part in expected.items():
            assert_same(actual[key], part)
        return
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert bits(actual) == bits(expected)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def numbers_of(batch: Any) -> list[int]:
    return [int(number) for number in np.asarray(batch.actions).reshape(-1)]
