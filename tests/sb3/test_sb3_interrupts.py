"""Ctrl-C at any point of a sample or a reset leaves a buffer that goes on as if nothing had been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, DictRolloutBuffer, ReplayBuffer, RolloutBuffer

import compressed_array_sb3 as cab
from compressed_array_sb3 import _reads
from core_helpers.interruptions import SOURCES, Interruption
from sb3_helpers.experience import DICT, STACKED, assert_same, play, seeded

pytestmark = pytest.mark.long

# All that Python may interrupt: the core's code, the adapter's and SB3's own between them.
EVERYWHERE = (SOURCES, str(Path(cab.__file__).parent), str(Path(stable_baselines3.__file__).parent))
ACTIONS = spaces.Discrete(3)
ROWS = np.arange(20)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("stock_class", "our_class", "space"),
    [
        (ReplayBuffer, cab.CompressedReplayBuffer, STACKED),
        (DictReplayBuffer, cab.CompressedDictReplayBuffer, DICT),
    ],
)
def test_after_an_interrupt_in_a_sample_reads_are_of_what_is_there(
    stock_class: Any, our_class: Any, space: Any
) -> None:
    stock, ours = (made(40, space, ACTIONS, "cpu", n_envs=2) for made in (stock_class, our_class))
    stream = play(space, ACTIONS, 2, 1000)
    for step in [next(stream) for _ in range(50)]:
        for buffer in (stock, ours):
            buffer.add(*step)
    envs, interrupts = ROWS % 2, 0
    for nth in range(1, 1500, 1 if space is STACKED else 9):
        try:
            with Interruption(nth, interrupt, sources=EVERYWHERE) as interruption:
                ours.sample(8)
        except KeyboardInterrupt:
            interrupts += 1
        assert _reads.current() is None, interruption.where
        step = next(stream)
        for buffer in (stock, ours):
            buffer.add(*step)
        for key in space.spaces if isinstance(space, spaces.Dict) else [...]:
            plain, array = (b.observations[key] if key is not ... else b.observations for b in (stock, ours))
            np.testing.assert_array_equal(array[ROWS, envs], plain[ROWS, envs])
        if interruption.left > 0:
            break
    assert interrupts > 15
    assert_same(*(seeded(3, buffer.sample, 16) for buffer in (ours, stock)))


@pytest.mark.parametrize(
    ("stock_class", "our_class", "space"),
    [
        (RolloutBuffer, cab.CompressedRolloutBuffer, STACKED),
        (DictRolloutBuffer, cab.CompressedDictRolloutBuffer, DICT),
    ],
)
def test_an_interrupt_in_a_reset_leaves_the_rollout_or_an_empty_buffer(
    stock_class: Any, our_class: Any, space: Any
) -> None:
    steps, interrupts = 6, 0
    ours = our_class(steps, space, ACTIONS, "cpu", n_envs=2)
    stream = play(space, ACTIONS, 2, 100_000)
    rollout, rewards = list[Any](), np.zeros((steps, 2), np.float32)
    for nth in range(1, 3000, 1 if space is STACKED else 9):
        stock = stock_class(steps, space, ACTIONS, "cpu", n_envs=2)
        try:
            with Interruption(nth, interrupt, sources=EVERYWHERE) as interruption:
                ours.reset()
        except KeyboardInterrupt:
            interrupts += 1
            if ours.full:  # nothing has been reset, so that all can be read once more
                np.testing.assert_array_equal(ours.rewards, rewards)
                assert_rollout(ours, rollout)
                ours.reset()
        assert ours.observation_space is space
        assert ours.pos == 0
        rollout, rewards = [next(stream) for _ in range(steps)], np.zeros((steps, 2), np.float32)
        value = torch.zeros(2)
        for buffer in (stock, ours):
            for t, step in enumerate(rollout):
                buffer.add(step.obs, step.action[:, None], step.reward, step.done, value, value)
                rewards[t] = step.reward
        assert_rollout(ours, rollout)
        if interruption.left > 0:
            break
    assert interrupts > 15
    for batch, other in zip(seeded(3, ours.get, 4), seeded(3, stock.get, 4), strict=True):
        assert_same(batch, other)


def assert_rollout(buffer: Any, rollout: list[Any]) -> None:
    for t, step in enumerate(rollout):
        parts = step.obs.items() if isinstance(step.obs, dict) else [(..., step.obs)]
        for key, part in parts:
            array = buffer.observations if key is ... else buffer.observations[key]
            got = array.read(t) if hasattr(array, "read") else array[t]
            np.testing.assert_array_equal(got.reshape(part.shape), part)
