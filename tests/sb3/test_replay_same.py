"""Law 6, replay: the same stream and the same seed give the same samples as SB3's own buffers, in every bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

import compressed_array_sb3 as cab
from sb3_helpers.experience import DICT, SPACES, assert_same, play, seeded

CODECS = ["auto", "delta", "delta-zstd", "zstd-3", "lz4-frame/1", "rle-jit", "gzip1", "none"]
DISCRETE, BOX = spaces.Discrete(6), spaces.Box(-1, 1, (2,), np.float64)


def assert_same_samples(stock: Any, ours: Any, stream: Any, env: Any = None, every: int = 7) -> None:
    """Fill two buffers with one stream and sample both as it goes."""
    for number, step in enumerate(stream):
        stock.add(*step)
        ours.add(*step)
        assert (ours.pos, ours.full, ours.size()) == (stock.pos, stock.full, stock.size())
        if number % every == 0:
            for batch in (1, 33):
                assert_same(seeded(number, ours.sample, batch, env=env), seeded(number, stock.sample, batch, env=env))


@pytest.mark.parametrize("n_envs", [1, 4])
@pytest.mark.parametrize("space", SPACES)
def test_every_space(space: str, n_envs: int) -> None:
    args = (50 * n_envs, SPACES[space], DISCRETE)
    stock, ours = ReplayBuffer(*args, n_envs=n_envs), cab.CompressedReplayBuffer(*args, n_envs=n_envs)
    assert_same_samples(stock, ours, play(SPACES[space], DISCRETE, n_envs, 130))


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(codec: str) -> None:
    args = (200, SPACES["stacked"], DISCRETE)
    stock, ours = ReplayBuffer(*args, n_envs=4), cab.CompressedReplayBuffer(*args, n_envs=4, codec=codec)
    assert_same_samples(stock, ours, play(SPACES["stacked"], DISCRETE, 4, 130))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("n_envs", [1, 4])
def test_dict(codec: str, n_envs: int) -> None:
    args = (50 * n_envs, DICT, BOX)
    stock, ours = (
        DictReplayBuffer(*args, n_envs=n_envs),
        cab.CompressedDictReplayBuffer(*args, n_envs=n_envs, codec=codec),
    )
    assert_same_samples(stock, ours, play(DICT, BOX, n_envs, 130))


@pytest.mark.parametrize("codec", ["auto", "delta-zstd", "zstd-3", "none"])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_n_step(codec: str, n_steps: int) -> None:
    args, options = (200, SPACES["stacked"], DISCRETE), {"n_envs": 4, "n_steps": n_steps, "gamma": 0.9}
    stock, ours = NStepReplayBuffer(*args, **options), cab.CompressedNStepReplayBuffer(*args, **options, codec=codec)
    assert_same_samples(stock, ours, play(SPACES["stacked"], DISCRETE, 4, 130))


@pytest.mark.parametrize("codec", ["auto", "delta-zstd", "zstd-3", "none"])
def test_n_step_of_a_dict_is_that_of_each_key(codec: str) -> None:
    options = {"n_envs": 4, "n_steps": 3, "gamma": 0.9}
    ours = cab.CompressedDictNStepReplayBuffer(200, DICT, BOX, **options, codec=codec)
    stocks = {key: NStepReplayBuffer(200, space, BOX, **options) for key, space in DICT.spaces.items()}
    for number, step in enumerate(play(DICT, BOX, 4, 130)):
        ours.add(*step)
        for key, stock in stocks.items():
            stock.add(step.obs[key], step.next_obs[key], *step[2:])
        if number % 7 == 0:
            mine = seeded(number, ours.sample, 33)
            for key, stock in stocks.items():
                theirs = seeded(number, stock.sample, 33)
                assert_same(mine.observations[key], theirs.observations)
                assert_same(mine.next_observations[key], theirs.next_observations)
                assert_same(
                    (mine.rewards, mine.dones, mine.discounts), (theirs.rewards, theirs.dones, theirs.discounts)
                )


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
@pytest.mark.parametrize("codec", ["auto", "delta", "zstd-3", "none"])
@pytest.mark.parametrize("n_envs", [1, 4])
def test_her(strategy: str, codec: str, n_envs: int) -> None:
    env = DummyVecEnv([lambda: BitFlippingEnv(n_bits=40, continuous=False, max_steps=12)] * n_envs)
    options = {"n_envs": n_envs, "goal_selection_strategy": strategy, "copy_info_dict": True, "env": env}
    args = (60 * n_envs, env.observation_space, env.action_space)
    stock, ours = HerReplayBuffer(*args, **options), cab.CompressedHerReplayBuffer(*args, **options, codec=codec)
    rng, obs = np.random.default_rng(0), env.reset()
    for number in range(150):
        action = rng.integers(40, size=n_envs)
        after, reward, done, infos = env.step(action)
        last = {key: value.copy() for key, value in after.items()}
        for i in np.flatnonzero(done):
            for key in last:
                last[key][i] = infos[i]["terminal_observation"][key]
        for buffer in (stock, ours):
            buffer.add(dict(obs), dict(last), action, reward, done, infos)
        obs = after
        if number > 20 and number % 5 == 0:
            assert_same(seeded(number, ours.sample, 33), seeded(number, stock.sample, 33))


@pytest.mark.parametrize("kind", ["box", "dict", "n-step"])
def test_vec_normalize(kind: str) -> None:
    space = DICT if kind == "dict" else SPACES["vector"]
    options: dict[str, Any] = {"n_steps": 3} if kind == "n-step" else {}
    classes = {
        "box": (ReplayBuffer, cab.CompressedReplayBuffer),
        "dict": (DictReplayBuffer, cab.CompressedDictReplayBuffer),
        "n-step": (NStepReplayBuffer, cab.CompressedNStepReplayBuffer),
    }[kind]
    keys = ["state"] if kind == "dict" else None
    env = VecNormalize(_NoVecEnv(space, 4), norm_obs_keys=keys)
    for step in play(space, BOX, 4, 20):
        rms = env.obs_rms["state"] if isinstance(env.obs_rms, dict) else env.obs_rms
        rms.update(step.obs["state"] if kind == "dict" else step.obs)
        env.ret_rms.update(step.reward)
    stock, ours = (cls(200, space, BOX, n_envs=4, **options) for cls in classes)
    assert_same_samples(stock, ours, play(space, BOX, 4, 130), env=env)


class _NoVecEnv(DummyVecEnv):
    """Spaces without environments, all that VecNormalize needs to normalize a sample."""

    def __init__(self, space: Any, n_envs: int) -> None:
        super(DummyVecEnv, self).__init__(n_envs, space, BOX)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs


@pytest.mark.parametrize("codec", ["auto", "delta", "zstd-3"])
def test_thousands_of_steps(codec: str) -> None:
    args = (4000, SPACES["stacked"], DISCRETE)
    stock, ours = ReplayBuffer(*args, n_envs=4), cab.CompressedReplayBuffer(*args, n_envs=4, codec=codec)
    assert_same_samples(stock, ours, play(SPACES["stacked"], DISCRETE, 4, 2500), every=101)
    np.testing.assert_array_equal(ours.observations, stock.observations)
    np.testing.assert_array_equal(ours.next_observations, stock.next_observations)


OPTIMIZED = {
    "box": cab.CompressedReplayBuffer,
    "n-step": cab.CompressedNStepReplayBuffer,
    "dict": cab.CompressedDictReplayBuffer,
    "dict n-step": cab.CompressedDictNStepReplayBuffer,
}


@pytest.mark.parametrize("kind", OPTIMIZED)
@pytest.mark.parametrize("positional", [False, True])
def test_optimize_memory_usage_changes_nothing(kind: str, positional: bool) -> None:
    space = DICT if "dict" in kind else SPACES["stacked"]
    plain = OPTIMIZED[kind](200, space, DISCRETE, "cpu", 4, False, True)
    if positional:
        optimized = OPTIMIZED[kind](200, space, DISCRETE, "cpu", 4, True, True)
    else:
        optimized = OPTIMIZED[kind](
            200, space, DISCRETE, "cpu", n_envs=4, optimize_memory_usage=True, handle_timeout_termination=True
        )
    assert_same_samples(plain, optimized, play(space, DISCRETE, 4, 130))


def test_optimize_memory_usage_with_her() -> None:
    env = DummyVecEnv([lambda: BitFlippingEnv(n_bits=4)])
    buffer = cab.CompressedHerReplayBuffer(
        100, env.observation_space, env.action_space, env, "cpu", 1, True, handle_timeout_termination=True
    )
    assert not buffer.optimize_memory_usage
    assert buffer.handle_timeout_termination


def test_timeouts_can_be_left_out() -> None:
    args = (200, SPACES["vector"], BOX)
    options = {"n_envs": 4, "handle_timeout_termination": False}
    stock, ours = ReplayBuffer(*args, **options), cab.CompressedReplayBuffer(*args, **options)
    assert_same_samples(stock, ours, play(SPACES["vector"], BOX, 4, 130))
