"""Law 6: the same stream and the same seed give the same samples as a plain array, in a replay ring and a rollout."""

from __future__ import annotations

from typing import Any

import numpy as np

import compressed_array as ca
from core_helpers.arrays import assert_same

STEPS, ENVS, SHAPE = 50, 3, (2, 12, 12)


def frames(rng: np.random.Generator) -> Any:
    while True:
        yield (rng.random((ENVS, *SHAPE)) < 0.1).astype(np.uint8) * 200


def replay(storage: Any, seed: int) -> list[Any]:
    """What SB3's ReplayBuffer does with its observations: a ring over rows of environments, pairs drawn at random."""
    rng, stream = np.random.default_rng(seed), frames(np.random.default_rng(seed + 1))
    samples = []
    for step in range(3 * STEPS):
        storage[step % STEPS] = next(stream)
        rows, envs = rng.integers(0, min(step + 1, STEPS), 8), rng.integers(0, ENVS, 8)
        samples += [storage[rows, envs, :], storage[(rows + 1) % STEPS, envs, :]]
    return samples


def rollout(storage: Any, seed: int) -> list[Any]:
    """What SB3's RolloutBuffer does: fill, swap and flatten once, then read shuffled minibatches for some epochs."""
    rng, stream = np.random.default_rng(seed), frames(np.random.default_rng(seed + 1))
    for step in range(STEPS):
        storage[step] = next(stream)
    flat = storage.swapaxes(0, 1).reshape(STEPS * ENVS, *SHAPE)
    return [flat[order] for _ in range(2) for order in np.split(rng.permutation(STEPS * ENVS), 5)]


def test_a_replay_ring_gives_the_same_samples(codec: str) -> None:
    plain = replay(np.zeros((STEPS, ENVS, *SHAPE), np.uint8), 7)
    ours = replay(ca.zeros((STEPS, ENVS, *SHAPE), np.uint8, item_ndim=3, codec=codec), 7)
    for got, expected in zip(ours, plain, strict=True):
        assert type(got) is np.ndarray
        assert_same(got, expected)


def test_a_rollout_gives_the_same_minibatches(codec: str) -> None:
    plain = rollout(np.zeros((STEPS, ENVS, *SHAPE), np.uint8), 7)
    ours = rollout(ca.zeros((STEPS, ENVS, *SHAPE), np.uint8, item_ndim=3, codec=codec), 7)
    for got, expected in zip(ours, plain, strict=True):
        assert_same(got, expected)
