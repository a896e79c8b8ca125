"""Training with compressed buffers ends at the JAX parameters that training with stock ones ends at, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sbx import DDPG, DQN, PPO, SAC, TD3, TQC, CrossQ
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import NStepReplayBuffer, RolloutBuffer
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from stable_baselines3.her import HerReplayBuffer

import compressed_array_sbx as cax
from compressed_array import CompressedArray
from compressed_array.torch import DeviceArray
from sb3_helpers.trainings import by_name, with_one_wrong_pixel
from sbx_helpers.jax_envs import balls, bits, normalized_balls, pendulum, stacked_balls

pytestmark = pytest.mark.long

SEED = 3
# Buffers are so small that they wrap while they are trained on, or are filled several times.
REPLAY = {"buffer_size": 80, "learning_starts": 30, "batch_size": 8, "train_freq": 4, "gradient_steps": 2}
NOISE = {"action_noise": NormalActionNoise(np.zeros(2), np.full(2, 0.1))}
SMALL: dict[str, Any] = {"policy_kwargs": {"net_arch": [16]}}
OPTIONS: dict[type[BaseAlgorithm], dict[str, Any]] = {
    DQN: REPLAY | {"target_update_interval": 40},
    SAC: REPLAY,
    TQC: REPLAY,
    CrossQ: REPLAY,
    TD3: REPLAY | NOISE,
    DDPG: REPLAY | NOISE,
    PPO: {"n_steps": 24, "batch_size": 16, "n_epochs": 2},
}


@dataclass(frozen=True, eq=False)  # each is itself, which makes it a key of caches
class Training:
    """One training that can be run with the stock buffer and with ours.

    :param stock: the stock buffer where it is not the algorithm's own choice
    :param buffer: arguments for either buffer
    :param codec: what only our buffer is given
    """

    algo: type[BaseAlgorithm]
    env: Callable[[], VecEnv]
    ours: type
    policy: str = "MlpPolicy"
    stock: type | None = None
    steps: int = 160
    options: dict[str, Any] = field(default_factory=dict)
    buffer: dict[str, Any] = field(default_factory=dict)
    codec: dict[str, Any] = field(default_factory=dict)

    def model(self, compressed: bool, **changes: Any) -> Any:
        set_random_seed(SEED)
        kind = "rollout" if self.algo is PPO else "replay"
        options = deepcopy(SMALL | OPTIONS[self.algo] | self.options | changes)
        chosen = self.ours if compressed else self.stock
        if chosen is not None:
            options[f"{kind}_buffer_class"] = chosen
            options[f"{kind}_buffer_kwargs"] = self.buffer | (self.codec if compressed else {})
        env = self.env()
        env.action_space.seed(SEED)  # what SB3 explores with before it learns
        env.observation_space.seed(SEED)  # SBX makes a network by a sample of it
        return self.algo(self.policy, env, seed=SEED, **options)

    def trained(self, compressed: bool, **changes: Any) -> Any:
        return self.model(compressed, **changes).learn(self.steps)

    def is_plain(self) -> bool:
        """Whether our buffer leaves these observations alone."""
        plain = [TRAININGS[name] for name in PLAIN]
        return any((self.algo, self.env, self.codec) == (one.algo, one.env, one.codec) for one in plain)


def parameters(model: Any) -> dict[str, bytes]:
    """Every number of the networks and of the optimizers, by its path, as bytes, in which 0 is not -0."""
    states = {name: value for name, value in vars(model.policy).items() if name.endswith("_state")}
    states |= {name: value for name, value in vars(model).items() if name.endswith("_state")}
    assert states
    found = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(states)}
    assert all(np.isfinite(leaf).all() for leaf in found.values())
    return {path: leaf.tobytes() for path, leaf in found.items()}


@cache
def stock(training: Training) -> dict[str, bytes]:
    """What the stock buffer comes to, which is not what it began with."""
    model = training.model(compressed=False)
    before = parameters(model)
    after = parameters(model.learn(training.steps))
    assert any(after[path] != before[path] for path in before)
    return after


def assert_same(ours: dict[str, bytes], theirs: dict[str, bytes]) -> None:
    assert ours.keys() == theirs.keys()
    assert [path for path in ours if ours[path] != theirs[path]] == []


def is_compressed(model: Any) -> bool:
    obs = (model.rollout_buffer if isinstance(model, PPO) else model.replay_buffer).observations
    parts = obs.values() if isinstance(obs, dict) else [obs]
    return any(isinstance(part, (CompressedArray, DeviceArray)) for part in parts)


DELTA = {"codec": "delta"}  # where observations are so small that they are left alone unless asked for
N_STEP = {"n_steps": 3, "gamma": 0.9}
GOALS = {"n_sampled_goal": 3, "goal_selection_strategy": "future"}
MOVING = partial(balls, "vector", continuous=True)
PUSHES = spaces.Box(-1, 1, (2,), np.float32)
SIMBA, KEYS = {"policy": "SimbaPolicy"}, {"policy": "MultiInputPolicy"}
TWO_KEYS, LONG_KEYS = ("vector", "place"), ("long", "place")


class Columns(gym.Env[Any, Any]):
    """Observations of two rows and one column, at random, and episodes of eight steps."""

    def __init__(self, actions: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = spaces.Box(-9, 9, (2, 1), np.float32), actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 8
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return self._seen(), float(self.np_random.normal()), not self.left, False, {}

    def _seen(self) -> Any:
        return self.np_random.normal(size=(2, 1)).astype(np.float32)


def flat(actions: spaces.Space[Any] = PUSHES) -> VecEnv:
    """What SBX flattens."""
    env = DummyVecEnv([partial(Columns, actions)] * 2)
    env.seed(SEED)
    return env


REPLAYS = {
    "dqn-images": Training(DQN, balls, cax.CompressedReplayBuffer, "CnnPolicy"),
    "dqn-as-many-gradient-steps": Training(
        DQN, partial(balls, "vector"), cax.CompressedReplayBuffer, codec=DELTA, options={"gradient_steps": -1}
    ),
    "dqn-n-step": Training(DQN, balls, cax.CompressedNStepReplayBuffer, "CnnPolicy", NStepReplayBuffer, buffer=N_STEP),
    "sac-simba": Training(SAC, MOVING, cax.CompressedReplayBuffer, **SIMBA, codec=DELTA),
    "sac-normalized": Training(SAC, normalized_balls, cax.CompressedReplayBuffer, codec=DELTA),
    "sac-dict": Training(SAC, partial(balls, TWO_KEYS, continuous=True), cax.CompressedDictReplayBuffer, **KEYS),
    "sac-her": Training(
        SAC, bits, cax.CompressedHerReplayBuffer, **KEYS, stock=HerReplayBuffer, buffer=GOALS, codec=DELTA
    ),
    "tqc": Training(TQC, MOVING, cax.CompressedReplayBuffer, codec=DELTA),
    "crossq": Training(CrossQ, MOVING, cax.CompressedReplayBuffer, codec=DELTA),
    "td3": Training(TD3, MOVING, cax.CompressedReplayBuffer, codec=DELTA),
    "td3-flat": Training(TD3, flat, cax.CompressedReplayBuffer, codec=DELTA),
    "ddpg": Training(DDPG, MOVING, cax.CompressedReplayBuffer, codec=DELTA),
}
ROLLOUTS = {
    "ppo-images": Training(PPO, balls, cax.CompressedRolloutBuffer, "CnnPolicy"),
    "ppo-vectors": Training(PPO, MOVING, cax.CompressedRolloutBuffer, codec=DELTA),
}
GPU = {
    "dqn-gpu": Training(DQN, balls, cax.GpuReplayBuffer, "CnnPolicy"),
    "sac-gpu-dict": Training(SAC, partial(balls, LONG_KEYS, continuous=True), cax.GpuDictReplayBuffer, **KEYS),
    "ppo-gpu": Training(PPO, balls, cax.GpuRolloutBuffer, "CnnPolicy"),
}
# The other ways in which algorithms, policies, buffers and observations go together. They take seconds to compile.
MORE = {
    "sac-plain": Training(SAC, pendulum, cax.CompressedReplayBuffer),
    "sac-long-dict": Training(SAC, partial(balls, LONG_KEYS, continuous=True), cax.CompressedDictReplayBuffer, **KEYS),
    "td3-dict": Training(TD3, partial(balls, TWO_KEYS, continuous=True), cax.CompressedDictReplayBuffer, **KEYS),
    "ppo-normalized": Training(PPO, normalized_balls, cax.CompressedRolloutBuffer, codec=DELTA),
    "dqn-stacks": Training(DQN, stacked_balls, cax.CompressedReplayBuffer, "CnnPolicy"),
    "dqn-vectors": Training(DQN, partial(balls, "vector"), cax.CompressedReplayBuffer, codec=DELTA),
    "sac-images": Training(SAC, partial(balls, continuous=True), cax.CompressedReplayBuffer),
    "sac-n-step": Training(SAC, MOVING, cax.CompressedNStepReplayBuffer, stock=NStepReplayBuffer, buffer=N_STEP),
    "sac-normalized-dict": Training(SAC, partial(normalized_balls, TWO_KEYS), cax.CompressedDictReplayBuffer, **KEYS),
    "tqc-simba": Training(TQC, MOVING, cax.CompressedReplayBuffer, **SIMBA, codec=DELTA),
    "tqc-dict": Training(TQC, partial(balls, TWO_KEYS, continuous=True), cax.CompressedDictReplayBuffer, **KEYS),
    "crossq-simba": Training(CrossQ, MOVING, cax.CompressedReplayBuffer, **SIMBA, codec=DELTA),
    "crossq-dict": Training(CrossQ, partial(balls, TWO_KEYS, continuous=True), cax.CompressedDictReplayBuffer, **KEYS),
    "dqn-flat": Training(DQN, partial(flat, spaces.Discrete(3)), cax.CompressedReplayBuffer, codec=DELTA),
    "sac-flat": Training(SAC, flat, cax.CompressedReplayBuffer, codec=DELTA),
    "sac-sde": Training(SAC, MOVING, cax.CompressedReplayBuffer, codec=DELTA, options={"use_sde": True}),
    "tqc-flat": Training(TQC, flat, cax.CompressedReplayBuffer, codec=DELTA),
    "crossq-flat": Training(CrossQ, flat, cax.CompressedReplayBuffer, codec=DELTA),
    "ddpg-flat": Training(DDPG, flat, cax.CompressedReplayBuffer, codec=DELTA),
    "ppo-flat": Training(PPO, flat, cax.CompressedRolloutBuffer, codec=DELTA),
    "ppo-plain": Training(PPO, partial(balls, "vector"), cax.CompressedRolloutBuffer),
}
PLAIN = (
    "sac-plain",
    "sac-n-step",
    "sac-dict",
    "sac-normalized-dict",
    "tqc-dict",
    "crossq-dict",
    "td3-dict",
    "ppo-plain",
)
TRAININGS = REPLAYS | ROLLOUTS | GPU | MORE


@by_name(REPLAYS | ROLLOUTS | GPU)
def test_same_parameters(training: Training) -> None:
    mine = training.trained(compressed=True)
    assert is_compressed(mine) != training.is_plain()
    assert_same(parameters(mine), stock(training))


@pytest.mark.slow
@by_name(MORE)
def test_same_parameters_elsewhere(training: Training) -> None:
    test_same_parameters(training)


@pytest.mark.slow
@by_name({name: REPLAYS[name] for name in ("dqn-images", "sac-dict", "tqc")})
def test_same_parameters_after_thousands_of_steps(training: Training) -> None:
    test_same_parameters(replace(training, steps=4000, options={"buffer_size": 1500, "batch_size": 32}))


@by_name({"dqn-images": REPLAYS["dqn-images"], "ppo-images": ROLLOUTS["ppo-images"]})
def test_one_wrong_pixel_is_noticed(training: Training) -> None:
    wrong = parameters(replace(training, ours=with_one_wrong_pixel(training.ours)).trained(compressed=True))
    assert wrong != stock(training)


# SB3 says so whenever HER's transitions are loaded; it is what new environments want.
@pytest.mark.filterwarnings("ignore:The last trajectory in the replay buffer will be truncated:UserWarning")
@by_name({name: REPLAYS[name] for name in ("dqn-images", "dqn-n-step", "sac-dict", "sac-her")})
def test_replay_goes_on_after_a_load(training: Training, tmp_path: Path) -> None:
    found = []
    for compressed in (True, False):
        model = training.trained(compressed)
        model.save(tmp_path / "model.zip")
        model.save_replay_buffer(tmp_path / "buffer.pkl")
        loaded = continued(model, training, tmp_path)
        found.append(parameters(loaded))
        assert found[-1] != parameters(model)
        assert loaded.replay_buffer.device == torch.device("cpu")
        if compressed:
            assert type(loaded.replay_buffer) is training.ours
            assert is_compressed(loaded) != training.is_plain()
    assert_same(*found)


def continued(model: Any, training: Training, folder: Path) -> Any:
    """What another process would do with the files of a training."""
    set_random_seed(SEED)
    env = training.env()
    loaded = type(model).load(folder / "model.zip", env=env)
    if not isinstance(model, PPO):
        loaded.load_replay_buffer(folder / "buffer.pkl")
    return loaded.learn(60, reset_num_timesteps=False)


@by_name({"ppo-images": ROLLOUTS["ppo-images"]})
def test_rollout_goes_on_after_a_load(training: Training, tmp_path: Path) -> None:
    found = []
    for compressed in (True, False):
        model = training.trained(compressed)
        model.save(tmp_path / "model.zip")
        loaded = continued(model, training, tmp_path)
        found.append(parameters(loaded))
        assert type(loaded.rollout_buffer) is (training.ours if compressed else RolloutBuffer)
    assert_same(*found)


@by_name({name: REPLAYS[name] for name in ("dqn-images", "dqn-n-step")})  # of all algorithms only DQN has it
def test_optimize_memory_usage_forgets_nothing(training: Training) -> None:
    mine = training.trained(compressed=True, optimize_memory_usage=True)
    assert_same(parameters(mine), stock(training))
