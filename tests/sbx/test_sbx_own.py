"""What SBX's own tests ask of its algorithms, asked with our buffers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sbx import DDPG, DQN, PPO, SAC, TQC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import FakeImageEnv
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure

import compressed_array_sb3 as cab
import compressed_array_sbx as cax
from compressed_array.recording import RecordBuffer
from compressed_array_sb3._mixin import CompressedBuffer
from compressed_array_sb3.recording import RecordCallback

pytestmark = pytest.mark.long

REPLAY = {"replay_buffer_class": cax.CompressedReplayBuffer}
DICT_REPLAY = {"replay_buffer_class": cax.CompressedDictReplayBuffer}
ROLLOUT = {"rollout_buffer_class": cax.CompressedRolloutBuffer}


def small() -> dict[str, Any]:
    return {"policy_kwargs": {"net_arch": [16]}}  # each its own: SB3 writes into it


def seeded(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    env.observation_space.seed(0)
    return env


@pytest.mark.slow
def test_tqc_learns_and_is_the_same_after_a_load(tmp_path: Path) -> None:
    settings = {"learning_starts": 50, "learning_rate": 1e-3, "tau": 0.02, "gamma": 0.98, "gradient_steps": 2}
    model = TQC("MlpPolicy", "Pendulum-v1", buffer_size=5000, seed=1, **settings, **REPLAY)
    model.learn(100)
    model.save(tmp_path / "begun.zip")
    env = model.get_env()
    model = TQC.load(tmp_path / "begun.zip")
    model.set_env(env, force_reset=False)
    model.learn(2000, reset_num_timesteps=False)
    evaluate_policy(model, env, reward_threshold=-800, warn=False)
    obs = env.observation_space.sample()
    before = model.predict(obs, deterministic=True)[0]
    model.save(tmp_path / "learnt.zip")
    after = TQC.load(tmp_path / "learnt.zip").predict(obs, deterministic=True)[0]
    assert np.allclose(before, after)


def test_dropout_and_layer_norm_in_several_environments() -> None:
    policy = {"net_arch": [16], "dropout_rate": 0.01, "layer_norm": True, "top_quantiles_to_drop_per_net": 1}
    env = make_vec_env("Pendulum-v1", n_envs=4, seed=0)
    model = TQC("MlpPolicy", env, buffer_size=300, policy_kwargs=policy, **REPLAY)
    model.learn(200)
    assert model.replay_buffer.size() == 50


@pytest.mark.parametrize("algo", [DQN, PPO])
def test_images_and_the_same_prediction_after_a_load(algo: Any, tmp_path: Path) -> None:
    env = seeded(FakeImageEnv(screen_height=40, screen_width=40, n_channels=1))
    options: dict[str, Any] = {"n_steps": 64, "batch_size": 32, "n_epochs": 2} | ROLLOUT
    if algo is DQN:
        options = {"buffer_size": 150, "learning_starts": 60} | REPLAY
    model = algo("CnnPolicy", env, **small(), **options).learn(150)
    obs, _ = env.reset()
    if algo is DQN:
        model.exploration_rate = 0.9
    for _ in range(5):
        assert model.predict(obs, deterministic=False)[0] in env.action_space
    before = model.predict(obs, deterministic=True)[0]
    model.save(tmp_path / "model.zip")
    assert np.array_equal(algo.load(tmp_path / "model.zip").predict(obs, deterministic=True)[0], before)


class Vectors(gym.Env[Any, Any]):
    """Samples of a space, in a dict or not."""

    def __init__(self, as_dict: bool) -> None:
        self.as_dict = as_dict
        self.box = spaces.Box(-1, 1, (4,), np.float32)
        parts = {"a": spaces.Box(-1, 1, (1,), np.float32), "b": spaces.Box(-1, 1, (3,), np.float32)}
        self.observation_space = spaces.Dict(parts) if as_dict else self.box
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.box.seed(seed)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._seen(), float(action.sum()), False, False, {}

    def _seen(self) -> Any:
        vector = self.box.sample()
        return {"a": vector[:1], "b": vector[1:]} if self.as_dict else vector


def test_keys_are_learnt_from_as_one_vector() -> None:
    actions = []
    for as_dict in (True, False):
        env = gym.wrappers.TimeLimit(Vectors(as_dict), 20)
        env.action_space.seed(0), env.observation_space.seed(0)
        chosen = ("MultiInputPolicy", DICT_REPLAY) if as_dict else ("MlpPolicy", REPLAY)
        options = {"buffer_size": 60, "learning_starts": 10, "train_freq": 4, "batch_size": 16} | small()
        model = SAC(chosen[0], env, seed=1, **options, **chosen[1]).learn(120)
        vector = np.linspace(-1, 1, 4, dtype=np.float32)
        obs = {"a": vector[:1], "b": vector[1:]} if as_dict else vector
        actions.append(model.predict(obs, deterministic=True)[0])
    assert np.array_equal(*actions)


class Acting(gym.Env[Any, Any]):
    """Any actions."""

    def __init__(self, actions: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = spaces.Box(-1, 1, (2,), np.float32), actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.mark.parametrize(
    "actions",
    [spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2), spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)],
    ids=lambda space: type(space).__name__,
)
def test_ppo_with_any_actions(actions: spaces.Space[Any]) -> None:
    model = PPO("MlpPolicy", Acting(actions), n_steps=16, batch_size=8, n_epochs=1, **small(), **ROLLOUT).learn(32)
    assert model.rollout_buffer.full


def test_samples_are_for_the_cpu_after_a_load_as_well(tmp_path: Path) -> None:
    model = SAC("MlpPolicy", "Pendulum-v1", buffer_size=200, **small(), **REPLAY)
    model.save_replay_buffer(tmp_path / "replay")
    model.load_replay_buffer(tmp_path / "replay")
    assert model.replay_buffer.device == torch.device("cpu")
    assert type(model.replay_buffer) is cax.CompressedReplayBuffer


def test_a_stock_file_becomes_a_compressed_buffer(tmp_path: Path) -> None:
    stock = DQN("MlpPolicy", "CartPole-v1", buffer_size=100, learning_starts=200, **small()).learn(80)
    stock.save_replay_buffer(tmp_path / "stock")
    model = DQN("MlpPolicy", "CartPole-v1", buffer_size=100, **small(), **REPLAY)
    cax.load_replay_buffer(model, tmp_path / "stock")
    assert type(model.replay_buffer) is cax.CompressedReplayBuffer
    assert np.array_equal(model.replay_buffer.observations, stock.replay_buffer.observations)


@pytest.mark.parametrize("kind", [cax.CompressedReplayBuffer, cab.CompressedReplayBuffer])
def test_a_compressed_file_gets_what_the_model_asks_for(kind: type, tmp_path: Path) -> None:
    before = DQN("MlpPolicy", "CartPole-v1", buffer_size=100, learning_starts=200, replay_buffer_class=kind, **small())
    before.learn(80).save_replay_buffer(tmp_path / "compressed")
    for options in ({}, {"alpha": 0.6}):
        model = DQN("MlpPolicy", "CartPole-v1", buffer_size=100, replay_buffer_kwargs=options, **small(), **REPLAY)
        cax.load_replay_buffer(model, tmp_path / "compressed")
        assert (type(model.replay_buffer), model.replay_buffer.alpha) == (
            cax.CompressedReplayBuffer,
            options.get("alpha"),
        )
        assert model.replay_buffer.sample_jax(8).rewards.shape == (8,)


def test_a_callback_records_what_is_held(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=16, n_epochs=1, **small(), **ROLLOUT)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(64, callback=cax.BufferStatsCallback())
    model.logger.close()
    assert "buffer/stored_mb" in (tmp_path / "progress.csv").read_text()


def test_a_callback_records_what_the_model_thought_of_a_step() -> None:
    game = RecordBuffer()
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=16, n_epochs=1, **small(), **ROLLOUT)
    features = {name: lambda step, name=name: step[name] for name in ("value", "log_prob")}
    model.learn(32, callback=RecordCallback(game, features=features))
    np.testing.assert_array_equal(game.features["value"], model.rollout_buffer.values.reshape(-1))
    np.testing.assert_array_equal(game.features["log_prob"], model.rollout_buffer.log_probs.reshape(-1))


class Noted(CompressedBuffer):
    """Takes one more argument."""

    def __init__(self, *args: Any, note: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.note = note


class NotedReplayBuffer(Noted, cax.CompressedReplayBuffer):
    pass


class NotedRolloutBuffer(Noted, cax.CompressedRolloutBuffer):
    pass


@pytest.mark.parametrize("algo", [DDPG, PPO])
def test_a_subclass_with_an_argument_of_its_own_is_given_it(algo: Any, tmp_path: Path) -> None:
    kind = "rollout" if algo is PPO else "replay"
    more = {"n_steps": 16, "batch_size": 8} if algo is PPO else {"buffer_size": 100, "learning_starts": 100}
    chosen = {"rollout": NotedRolloutBuffer, "replay": NotedReplayBuffer}[kind]
    told = {f"{kind}_buffer_class": chosen, f"{kind}_buffer_kwargs": {"note": "mine", "codec": "delta"}}
    model = algo("MlpPolicy", "Pendulum-v1", **small(), **more, **told)
    model.save(tmp_path / "model")
    for one in (model, algo.load(tmp_path / "model", env=model.env)):
        buffer = getattr(one, f"{kind}_buffer")
        assert type(buffer) is chosen
        assert (buffer.note, buffer.codec) == ("mine", "delta")


@pytest.mark.parametrize(
    ("algo", "options"),
    [
        (SAC, {"replay_buffer_class": cax.CompressedRolloutBuffer}),
        (PPO, {"rollout_buffer_class": cax.CompressedReplayBuffer}),
        (SAC, {"replay_buffer_class": cax.CompressedDictReplayBuffer}),
        (SAC, {"replay_buffer_class": cax.CompressedHerReplayBuffer}),
    ],
)
def test_a_class_for_something_else_is_refused(algo: Any, options: dict[str, Any]) -> None:
    with pytest.raises(cax.BufferClassError):
        algo("MlpPolicy", "Pendulum-v1", **options)
