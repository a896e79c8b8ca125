"""Buffers and models that come from SB3's own classes, and models that go back where there is no compression."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer
from sb3_contrib.common.recurrent.buffers import RecurrentRolloutBuffer
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.buffers import (
    DictReplayBuffer,
    DictRolloutBuffer,
    NStepReplayBuffer,
    ReplayBuffer,
    RolloutBuffer,
)
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

import compressed_array_sb3 as cab
from sb3_helpers.experience import DICT, SPACES, assert_same, play, seeded

ACTIONS = spaces.Discrete(4)
STACKED = SPACES["stacked"]
N_ENVS, ROWS = 2, 30

REPLAYS = [
    (ReplayBuffer, cab.CompressedReplayBuffer, STACKED, {}),
    (ReplayBuffer, cab.CompressedReplayBuffer, SPACES["discrete"], {}),
    (ReplayBuffer, cab.GpuReplayBuffer, STACKED, {}),
    (ReplayBuffer, cab.CompressedReplayBuffer, STACKED, {"handle_timeout_termination": False}),
    (DictReplayBuffer, cab.CompressedDictReplayBuffer, DICT, {}),
    (NStepReplayBuffer, cab.CompressedNStepReplayBuffer, STACKED, {"n_steps": 4, "gamma": 0.9}),
]


def stock_of(kind: Any, space: Any, steps: int, **options: Any) -> Any:
    buffer = kind(ROWS * N_ENVS + 1, space, ACTIONS, device="cpu", n_envs=N_ENVS, **options)
    for step in play(space, ACTIONS, N_ENVS, steps):
        buffer.add(*step)
    return buffer


@pytest.mark.parametrize("steps", [0, 7, ROWS, ROWS + 11])
@pytest.mark.parametrize(("kind", "cls", "space", "options"), REPLAYS)
def test_a_stock_buffer_converts_and_goes_on(kind: Any, cls: Any, space: Any, options: Any, steps: int) -> None:
    stock = stock_of(kind, space, steps, **options)
    ours = cls.from_buffer(stock)
    assert (ours.pos, ours.full, ours.buffer_size, ours.n_envs) == (stock.pos, stock.full, stock.buffer_size, N_ENVS)
    for step in play(space, ACTIONS, N_ENVS, 12, seed=1):  # and neither shares anything with the other
        if stock.size():
            assert_same(seeded(0, ours.sample, 40), seeded(0, stock.sample, 40))
        ours.add(*step)
        stock.add(*step)
    assert_same(seeded(0, ours.sample, 40), seeded(0, stock.sample, 40))


def test_what_repeats_is_kept_once_after_a_conversion() -> None:
    stock = stock_of(ReplayBuffer, STACKED, ROWS + 11)
    ours = cab.CompressedReplayBuffer.from_buffer(stock, codec="delta")
    added = stock_of(cab.CompressedReplayBuffer, STACKED, ROWS + 11, codec="delta")
    assert ours.memory_usage().shared == added.memory_usage().shared > ROWS
    assert ours.memory_usage().stored < 1.1 * added.memory_usage().stored
    assert ours.memory_usage().stored < ours.memory_usage().raw / 5


@pytest.mark.parametrize("steps", [0, 7, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS + 11])
def test_a_buffer_with_optimize_memory_usage_gives_the_samples_it_gave(steps: int) -> None:
    """Its row at `pos` is no transition, so that a full one has one less than rows, and converts to as many."""
    options = {"optimize_memory_usage": True, "handle_timeout_termination": False}
    stock = stock_of(ReplayBuffer, STACKED, steps, **options)
    ours = cab.CompressedReplayBuffer.from_buffer(stock)
    assert ours.size() == min(steps, ROWS - 1)
    assert ours.buffer_size == ROWS
    if steps:
        assert_same(seeded(0, ours.sample, 200), seeded(0, stock.sample, 200))
    for step in play(STACKED, ACTIONS, N_ENVS, ROWS, seed=1):
        ours.add(*step)
    fresh = cab.CompressedReplayBuffer(ROWS * N_ENVS, STACKED, ACTIONS, "cpu", N_ENVS, handle_timeout_termination=False)
    for step in play(STACKED, ACTIONS, N_ENVS, ROWS, seed=1):
        fresh.add(*step)
    last, wanted = ours._get_samples(np.array([ours.pos - 1])), fresh._get_samples(np.array([fresh.pos - 1]))
    assert_same(last.next_observations.max(), wanted.next_observations.max())
    assert ours.full


def goals(n_envs: int = N_ENVS) -> DummyVecEnv:
    return DummyVecEnv([lambda: BitFlippingEnv(n_bits=20, continuous=False, max_steps=7)] * n_envs)


def played(steps: int, seed: int) -> list[Any]:
    rng, env = np.random.default_rng(seed), goals()
    obs, result = env.reset(), []
    for number in range(steps):
        action = rng.integers(0, env.action_space.n, N_ENVS)
        after, reward, done, infos = env.step(action)
        result.append((obs, after, action, reward, done, [info | {"number": number} for info in infos]))
        obs = after
    return result


@pytest.mark.parametrize("steps", [9, 20, 53])
@pytest.mark.parametrize("strategy", ["future", "final"])
def test_her_keeps_its_episodes_and_infos(steps: int, strategy: str) -> None:
    env = goals()
    options = {"goal_selection_strategy": strategy, "copy_info_dict": True, "n_sampled_goal": 3}
    stock = HerReplayBuffer(40 * N_ENVS, env.observation_space, env.action_space, env, "cpu", n_envs=N_ENVS, **options)
    for step in played(steps, 0):
        stock.add(*step)
    ours = cab.CompressedHerReplayBuffer.from_buffer(stock, codec="zstd-3")
    assert ours.goal_selection_strategy == stock.goal_selection_strategy
    for seed in range(3):
        assert_same(seeded(seed, ours.sample, 50), seeded(seed, stock.sample, 50))
        assert (ours.infos == stock.infos).all()
        for step in played(15, seed):
            ours.add(*step)
            stock.add(*step)
    stock.reset()  # after which SB3 goes on sampling what it has
    assert_same(seeded(0, cab.CompressedHerReplayBuffer.from_buffer(stock).sample, 50), seeded(0, stock.sample, 50))


def rollout_of(kind: Any, space: Any, steps: int, **options: Any) -> Any:
    buffer = kind(ROWS, space, ACTIONS, device="cpu", n_envs=N_ENVS, gae_lambda=0.9, gamma=0.8, **options)
    for number, step in enumerate(play(space, ACTIONS, N_ENVS, steps)):
        extra = {}
        if "hidden_state_shape" in options:
            state = torch.full((1, N_ENVS, 3), float(number))
            extra["lstm_states"] = RNNStates((state, -state), (state + 1, state + 2))
        values = torch.arange(N_ENVS) + torch.tensor(float(number))
        buffer.add(step.obs, step.action, step.reward, step.done, values, -values, **extra)
    if buffer.full:
        buffer.compute_returns_and_advantage(torch.ones(N_ENVS), np.zeros(N_ENVS))
    return buffer


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize(
    ("kind", "cls", "space", "options"),
    [
        (RolloutBuffer, cab.CompressedRolloutBuffer, STACKED, {}),
        (RolloutBuffer, cab.CompressedRolloutBuffer, SPACES["discrete"], {}),
        (DictRolloutBuffer, cab.CompressedDictRolloutBuffer, DICT, {}),
        (MaskableRolloutBuffer, cab.CompressedMaskableRolloutBuffer, STACKED, {}),
        (
            RecurrentRolloutBuffer,
            cab.CompressedRecurrentRolloutBuffer,
            STACKED,
            {"hidden_state_shape": (ROWS, 1, 2, 3)},
        ),
    ],
)
def test_a_rollout_converts_before_and_after_it_is_read(
    kind: Any, cls: Any, space: Any, options: Any, is_read: bool
) -> None:
    stock = rollout_of(kind, space, ROWS, **options)
    if is_read:
        seeded(1, stock.get, 16)
    ours = cls.from_buffer(stock)
    for batch, wanted in zip(seeded(0, ours.get, 16), seeded(0, stock.get, 16), strict=True):
        assert_same(batch, wanted)
    ours.reset()
    assert (ours.pos, ours.full) == (0, False)


def test_a_rollout_that_is_not_full_converts() -> None:
    stock = rollout_of(RolloutBuffer, STACKED, 9)
    ours = cab.CompressedRolloutBuffer.from_buffer(stock)
    assert (ours.pos, ours.full, ours.gae_lambda, ours.gamma) == (9, False, 0.9, 0.8)
    np.testing.assert_array_equal(ours.observations.read(), stock.observations)


@pytest.mark.parametrize("kind", [NStepReplayBuffer, cab.CompressedNStepReplayBuffer])
def test_what_is_told_holds_after_a_conversion(kind: Any) -> None:
    stock = stock_of(kind, STACKED, ROWS + 11, n_steps=3, gamma=0.9)
    told = {"n_steps": 5, "gamma": 0.5}
    ours, wanted = (
        cab.CompressedNStepReplayBuffer.from_buffer(stock, **told),
        stock_of(kind, STACKED, ROWS + 11, **told),
    )
    assert (ours.n_steps, ours.gamma) == (5, 0.5)
    assert_same(seeded(0, ours.sample, 40), seeded(0, wanted.sample, 40))
    assert not cab.CompressedNStepReplayBuffer.from_buffer(
        stock, handle_timeout_termination=False
    ).handle_timeout_termination
    rollout = cab.CompressedRolloutBuffer.from_buffer(rollout_of(RolloutBuffer, STACKED, 9), gamma=0.5)
    assert (rollout.gamma, rollout.gae_lambda) == (0.5, 0.9)


def test_her_may_be_told_another_ratio() -> None:
    env = goals()
    stock = HerReplayBuffer(40 * N_ENVS, env.observation_space, env.action_space, env, "cpu", n_envs=N_ENVS)
    assert cab.CompressedHerReplayBuffer.from_buffer(stock).her_ratio == stock.her_ratio
    assert cab.CompressedHerReplayBuffer.from_buffer(stock, n_sampled_goal=1).her_ratio == 0.5


@pytest.mark.parametrize("option", [{"buffer_size": 10}, {"n_envs": 1}, {"observation_space": SPACES["discrete"]}])
def test_a_converted_buffer_has_the_shape_of_the_other(option: dict[str, Any]) -> None:
    with pytest.raises(cab.BufferOptionError, match=next(iter(option))):
        cab.CompressedReplayBuffer.from_buffer(stock_of(ReplayBuffer, STACKED, 3), **option)


def test_a_compressed_buffer_hands_its_options_on() -> None:
    options = {"alpha": 0.9, "beta": 0.5, "epsilon": 0.1, "codec": "zstd-3"}
    before = stock_of(cab.CompressedPrioritizedReplayBuffer, STACKED, 9, **options)
    again = cab.CompressedPrioritizedReplayBuffer.from_buffer(before)
    assert {name: getattr(again, name) for name in options} == {name: getattr(before, name) for name in options}
    assert cab.CompressedPrioritizedReplayBuffer.from_buffer(before, alpha=0.2).alpha == 0.2
    assert cab.CompressedReplayBuffer.from_buffer(before).size() == 9


def test_each_class_converts_its_own() -> None:
    with pytest.raises(cab.BufferClassError, match="takes a ReplayBuffer, not a NStepReplayBuffer"):
        cab.CompressedReplayBuffer.from_buffer(stock_of(NStepReplayBuffer, STACKED, 3))
    with pytest.raises(cab.BufferClassError, match="takes a DictReplayBuffer, not a ReplayBuffer"):
        cab.CompressedDictReplayBuffer.from_buffer(stock_of(ReplayBuffer, STACKED, 3))


# Files


def test_a_stock_file_is_compressed_when_it_is_loaded(tmp_path: Path) -> None:
    options = {"buffer_size": 500, "learning_starts": 20, "device": "cpu", "seed": 0}
    before = DQN("MlpPolicy", "CartPole-v1", **options)
    before.learn(100)
    before.save_replay_buffer(tmp_path / "stock")
    model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=cab.CompressedReplayBuffer, **options)
    model.replay_buffer_kwargs = {"codec": "zstd-3"}
    cab.load_replay_buffer(model, tmp_path / "stock")
    assert type(model.replay_buffer) is cab.CompressedReplayBuffer
    assert model.replay_buffer.memory_usage().keys[""].codec == "zstd-3"
    assert_same(seeded(0, model.replay_buffer.sample, 50), seeded(0, before.replay_buffer.sample, 50))
    model.learn(30)
    model.save_replay_buffer(tmp_path / "ours")
    kept = model.replay_buffer
    cab.load_replay_buffer(model, str(tmp_path / "ours"))
    assert model.replay_buffer is not kept
    assert_same(seeded(0, model.replay_buffer.sample, 50), seeded(0, kept.sample, 50))
    cab.load_replay_buffer(before, tmp_path / "stock")  # of a model without compression it stays what it is
    assert type(before.replay_buffer) is ReplayBuffer


def test_sb3_s_own_way_of_loading_a_stock_file_is_noticed_by_the_callback(tmp_path: Path) -> None:
    options = {"buffer_size": 500, "learning_starts": 20, "device": "cpu"}
    DQN("MlpPolicy", "CartPole-v1", **options).save_replay_buffer(tmp_path / "stock")
    model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=cab.CompressedReplayBuffer, **options)
    model.load_replay_buffer(tmp_path / "stock")
    with pytest.raises(cab.BufferOptionError, match=r"load_replay_buffer\(model, path\)"):
        model.learn(10, callback=cab.BufferStatsCallback())


def test_a_file_of_another_kind_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    options = {"buffer_size": 500, "device": "cpu"}
    DQN("MlpPolicy", "CartPole-v1", n_steps=3, **options).save_replay_buffer(tmp_path / "n-step")
    model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=cab.CompressedReplayBuffer, **options)
    kept = model.replay_buffer
    with pytest.raises(cab.BufferClassError, match="NStepReplayBuffer"):
        cab.load_replay_buffer(model, tmp_path / "n-step")
    assert model.replay_buffer is kept


def test_a_stock_file_of_her_is_compressed_and_has_its_environment(tmp_path: Path) -> None:
    options = {"buffer_size": 200, "learning_starts": 20, "device": "cpu"}
    before = DQN("MultiInputPolicy", goals(1), replay_buffer_class=HerReplayBuffer, **options)
    before.learn(45)
    before.save_replay_buffer(tmp_path / "her")
    model = DQN("MultiInputPolicy", goals(1), replay_buffer_class=cab.CompressedHerReplayBuffer, **options)
    with pytest.warns(UserWarning, match="will be truncated"):  # as SB3 says of its own
        cab.load_replay_buffer(model, tmp_path / "her")
    assert type(model.replay_buffer) is cab.CompressedHerReplayBuffer
    assert model.replay_buffer.env is model.env
    model.learn(20)


# A model where this package is not: the lines of the README, run there


WITHOUT = """
import sys
for name in ("compressed_array", "compressed_array_sb3"):
    sys.modules[name] = None
import gymnasium
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
env = gymnasium.make("CartPole-v1")
stock = {"replay_buffer_class": ReplayBuffer, "replay_buffer_kwargs": {}}
print(type(DQN.load(sys.argv[1], env, custom_objects=stock).learn(12).replay_buffer))
stock = {"rollout_buffer_class": RolloutBuffer, "rollout_buffer_kwargs": {}}
print(type(PPO.load(sys.argv[2], env, custom_objects=stock).learn(16).rollout_buffer))
"""


def test_a_model_is_loaded_where_this_package_is_not(tmp_path: Path) -> None:
    kwargs, files = {"codec": "delta"}, [tmp_path / "dqn", tmp_path / "ppo"]
    replay = {"replay_buffer_class": cab.CompressedReplayBuffer, "replay_buffer_kwargs": kwargs}
    DQN("MlpPolicy", "CartPole-v1", buffer_size=50, learning_starts=8, device="cpu", **replay).save(files[0])
    rollout = {"rollout_buffer_class": cab.CompressedRolloutBuffer, "rollout_buffer_kwargs": kwargs}
    PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, n_epochs=1, device="cpu", **rollout).save(files[1])
    run = subprocess.run([sys.executable, "-c", WITHOUT, *files], capture_output=True, text=True, check=False)
    names = [f"<class 'stable_baselines3.common.buffers.{name}'>" for name in ("ReplayBuffer", "RolloutBuffer")]
    assert run.stdout.splitlines() == names, run.stderr


def test_continuous_actions_convert() -> None:
    model = SAC("MlpPolicy", "Pendulum-v1", buffer_size=200, learning_starts=300, device="cpu", seed=0).learn(120)
    ours = cab.CompressedReplayBuffer.from_buffer(model.replay_buffer, codec="delta")
    assert_same(seeded(0, ours.sample, 50), seeded(0, model.replay_buffer.sample, 50))
