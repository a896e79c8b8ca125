"""Law 6, rollouts: the same rollout and the same seed give the same minibatches as SB3's own buffers, in every bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer, MaskableRolloutBuffer
from sb3_contrib.common.recurrent.buffers import RecurrentDictRolloutBuffer, RecurrentRolloutBuffer
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer

import compressed_array_sb3 as cab
from sb3_helpers.experience import DICT, SPACES, Step, assert_same, play, seeded

CODECS = ["auto", "delta", "delta-zstd", "zstd-3", "lz4-frame/1", "rle-jit", "none"]
ACTIONS = spaces.MultiDiscrete([3, 4])
STEPS, LAYERS, HIDDEN = 40, 2, 5

PAIRS = {
    "plain": (RolloutBuffer, cab.CompressedRolloutBuffer),
    "dict": (DictRolloutBuffer, cab.CompressedDictRolloutBuffer),
    "recurrent": (RecurrentRolloutBuffer, cab.CompressedRecurrentRolloutBuffer),
    "recurrent dict": (RecurrentDictRolloutBuffer, cab.CompressedRecurrentDictRolloutBuffer),
    "maskable": (MaskableRolloutBuffer, cab.CompressedMaskableRolloutBuffer),
    "maskable dict": (MaskableDictRolloutBuffer, cab.CompressedMaskableDictRolloutBuffer),
}


def both(kind: str, space: spaces.Space[Any], n_envs: int, codec: Any = "auto") -> tuple[Any, Any]:
    stock, ours = PAIRS[kind]
    shape = ((STEPS, LAYERS, n_envs, HIDDEN),) if "recurrent" in kind else ()
    args, options = (STEPS, space, ACTIONS, *shape, "cpu"), {"gae_lambda": 0.9, "gamma": 0.95, "n_envs": n_envs}
    return stock(*args, **options), ours(*args, **options, codec=codec)


def additions(kind: str, step: Step, n_envs: int, rng: np.random.Generator) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What an on-policy algorithm adds after a step."""
    value, log_prob = (torch.from_numpy(rng.normal(size=n_envs).astype(np.float32)) for _ in range(2))
    more: dict[str, Any] = {}
    if "recurrent" in kind:
        states = [torch.from_numpy(rng.normal(size=(LAYERS, n_envs, HIDDEN)).astype(np.float32)) for _ in range(4)]
        more["lstm_states"] = RNNStates((states[0], states[1]), (states[2], states[3]))
    if "maskable" in kind:
        more["action_masks"] = rng.integers(0, 2, (n_envs, int(ACTIONS.nvec.sum())))
    return (step.obs, step.action, step.reward, step.done, value, log_prob), more


def assert_same_rollouts(kind: str, stock: Any, ours: Any, space: Any, n_envs: int, rollouts: int = 3) -> None:
    rng = np.random.default_rng(1)
    stream = play(space, ACTIONS, n_envs, STEPS * rollouts)
    for rollout in range(rollouts):
        for buffer in (stock, ours):
            buffer.reset()
        for _ in range(STEPS):
            args, more = additions(kind, next(stream), n_envs, rng)
            for buffer in (stock, ours):
                buffer.add(*args, **more)
        last = torch.from_numpy(rng.normal(size=n_envs).astype(np.float32))
        for buffer in (stock, ours):
            buffer.compute_returns_and_advantage(last_values=last, dones=np.zeros(n_envs, bool))
        for epoch, batch in enumerate((16, 16, None, 17)):
            for mine, theirs in zip(
                seeded(rollout + epoch, ours.get, batch), seeded(rollout + epoch, stock.get, batch), strict=True
            ):
                assert_same(mine, theirs)
        np.testing.assert_array_equal(ours.values.flatten(), stock.values.flatten())
        np.testing.assert_array_equal(ours.returns.flatten(), stock.returns.flatten())


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("n_envs", [1, 4])
@pytest.mark.parametrize("codec", CODECS)
def test_every_class_and_codec(kind: str, n_envs: int, codec: str) -> None:
    space = DICT if "dict" in kind else SPACES["stacked"]
    assert_same_rollouts(kind, *both(kind, space, n_envs, codec), space, n_envs)


@pytest.mark.parametrize("kind", ["plain", "recurrent", "maskable"])
@pytest.mark.parametrize("space", SPACES)
def test_every_space(kind: str, space: str) -> None:
    assert_same_rollouts(kind, *both(kind, SPACES[space], 4), SPACES[space], 4)


def test_rollouts_do_not_add_up_in_memory() -> None:
    stock, ours = both("plain", SPACES["stacked"], 4)
    assert_same_rollouts("plain", stock, ours, SPACES["stacked"], 4, rollouts=3)
    first = ours.memory_usage().stored
    assert_same_rollouts("plain", stock, ours, SPACES["stacked"], 4, rollouts=40)
    assert ours.memory_usage().stored < 1.25 * first, "what it has learnt of the stream may come on top, once"


def test_a_rollout_that_is_full_keeps_nothing_for_the_next_observation() -> None:
    _, ours = both("plain", SPACES["stacked"], 4)
    for step, part in enumerate(play(SPACES["stacked"], ACTIONS, 4, STEPS)):
        args, _ = additions("plain", part, 4, np.random.default_rng(0))
        ours.add(*args)
        if step == STEPS - 2:
            before = ours.memory_usage().stored
    assert ours.memory_usage().stored <= before - ours.observations[0].nbytes // 2


def test_a_rollout_begins_with_what_the_last_has_learnt() -> None:
    _, ours = both("dict", DICT, 4)
    store, stream = ours.observations["image"].store, play(DICT, ACTIONS, 4, STEPS)
    for _ in range(STEPS):
        args, _ = additions("dict", next(stream), 4, np.random.default_rng(0))
        ours.add(*args)
    list(ours.get())
    ours.reset()
    assert ours.observations["image"].store is store
    assert not ours.observations["image"].read().any()


def test_a_rollout_that_is_not_full_says_so() -> None:
    _, ours = both("plain", SPACES["stacked"], 4)
    with pytest.raises(cab.BufferNotFullError, match="0 of 40 steps"):
        ours.get(16)
