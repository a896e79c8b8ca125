"""Training with compressed buffers ends at the weights that training with SB3's own ends at, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import QRDQN, TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.her import HerReplayBuffer

from compressed_array_sb3 import (
    CompressedArray,
    CompressedDictNStepReplayBuffer,
    CompressedDictReplayBuffer,
    CompressedDictRolloutBuffer,
    CompressedHerReplayBuffer,
    CompressedMaskableDictRolloutBuffer,
    CompressedMaskableRolloutBuffer,
    CompressedNStepReplayBuffer,
    CompressedRecurrentPPO,
    CompressedReplayBuffer,
    CompressedRolloutBuffer,
)
from compressed_array_sb3.gpu_buffers import (
    DeviceArray,
    GpuDictReplayBuffer,
    GpuDictRolloutBuffer,
    GpuReplayBuffer,
    GpuRolloutBuffer,
)
from sb3_helpers.training_envs import atari, balls, bits, classic, masked, noise, normalized_balls, rooms, stacked_balls
from sb3_helpers.trainings import by_name, with_one_wrong_pixel

pytestmark = pytest.mark.long

SEED = 3
BOTH = ("image", "vector")
HERE = {"policy_kwargs": {"net_arch": [16]}, "seed": SEED, "device": "cpu"}
# Buffers are so small that they wrap while they are trained on, or are filled several times.
REPLAY = {"buffer_size": 80, "learning_starts": 30, "batch_size": 8, "train_freq": 2}
ROLLOUT = {"n_steps": 24, "batch_size": 16}
LSTM = {"policy_kwargs": {"net_arch": [16], "lstm_hidden_size": 8}}
OPTIONS: dict[type[BaseAlgorithm], dict[str, Any]] = {
    DQN: REPLAY | {"target_update_interval": 40},
    QRDQN: REPLAY | {"target_update_interval": 40},
    SAC: REPLAY,
    TD3: REPLAY | {"action_noise": NormalActionNoise(np.zeros(2), np.full(2, 0.1))},
    PPO: ROLLOUT | {"n_epochs": 2},
    A2C: {"n_steps": 8},
    TRPO: ROLLOUT | {"cg_max_steps": 4, "n_critic_updates": 3},
    MaskablePPO: ROLLOUT | {"n_epochs": 2},
    RecurrentPPO: ROLLOUT | {"n_epochs": 2} | LSTM,
}


@dataclass(frozen=True, eq=False)  # each is itself, which makes it a key of caches
class Training:
    """One training that can be run with SB3's buffer and with ours.

    :param ours: a buffer, or an algorithm that has one
    :param stock: SB3's buffer where it is not the algorithm's own choice
    :param buffer: arguments for either buffer
    :param codec: what only our buffer is given
    """

    algo: type[BaseAlgorithm]
    env: Callable[[], VecEnv]
    ours: type
    stock: type | None = None
    steps: int = 200
    options: dict[str, Any] = field(default_factory=dict)
    buffer: dict[str, Any] = field(default_factory=dict)
    codec: dict[str, Any] = field(default_factory=dict)

    def model(self, compressed: bool, **changes: Any) -> BaseAlgorithm:
        set_random_seed(SEED)  # before there is an environment: some take random numbers when they are made
        env = self.env()
        kind = "replay" if issubclass(self.algo, OffPolicyAlgorithm) else "rollout"
        options = deepcopy(HERE | OPTIONS[self.algo] | self.options | changes)  # SB3 writes into the policy's
        algo, chosen = self.algo, self.ours if compressed else self.stock
        if compressed or self.buffer:
            options[f"{kind}_buffer_kwargs"] = self.buffer | (self.codec if compressed else {})
        if chosen is not None and issubclass(chosen, BaseAlgorithm):
            algo = chosen
        elif chosen is not None:
            options[f"{kind}_buffer_class"] = chosen
        return algo(policy_for(env.observation_space, self.algo), env, **options)

    def trained(self, compressed: bool, **changes: Any) -> BaseAlgorithm:
        model = self.model(compressed, **changes).learn(self.steps)
        model.env.close()
        return model


def policy_for(space: spaces.Space[Any], algo: type[BaseAlgorithm]) -> str:
    of_box = "Cnn" if is_image_space(space) else "Mlp"
    kind = "MultiInput" if isinstance(space, spaces.Dict) else of_box
    return kind + ("LstmPolicy" if algo is RecurrentPPO else "Policy")


def buffer_of(model: BaseAlgorithm) -> Any:
    return model.replay_buffer if isinstance(model, OffPolicyAlgorithm) else model.rollout_buffer


def leaves(state: Any, path: str = "") -> dict[str, Any]:
    """All that is inside of state dicts, by its path; tensors as their bytes, in which 0 is not -0."""
    if isinstance(state, dict):
        items = state.items()
    elif isinstance(state, (list, tuple)):
        items = enumerate(state)
    else:
        return {path: state.numpy().tobytes() if isinstance(state, torch.Tensor) else state}
    return {name: leaf for key, part in items for name, leaf in leaves(part, f"{path}/{key}").items()}


def weights(model: BaseAlgorithm) -> dict[str, Any]:
    """Every parameter of the policy and every number of the optimizers."""
    assert all(weight.isfinite().all() for weight in model.policy.state_dict().values())
    return leaves(model.get_parameters())


@cache
def untrained_weights(training: Training) -> dict[str, Any]:
    return weights(training.model(compressed=False))


@cache
def stock_weights(training: Training) -> dict[str, Any]:
    return weights(training.trained(compressed=False))


def assert_same(ours: dict[str, Any], theirs: dict[str, Any], training: Training) -> None:
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []
    before = untrained_weights(training)
    assert any(ours[name] != before[name] for name in before if name.startswith("/policy/"))


def is_compressed(model: BaseAlgorithm) -> dict[str, bool]:
    """Whether they are, for each key of the observations."""
    obs = buffer_of(model).observations
    parts = obs if isinstance(obs, dict) else {"": obs}
    return {key: isinstance(part, (CompressedArray, DeviceArray)) for key, part in parts.items()}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The order in which threads add floats up is theirs to choose."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


PACKED = {"codec": "delta-zstd"}
DELTA = {"codec": "delta"}  # where observations are so small that they are left alone unless asked for
N_STEP = {"n_steps": 3, "gamma": 0.9}
GOALS = {"n_sampled_goal": 3, "goal_selection_strategy": "future"}

REPLAYS = {
    "dqn-images": Training(DQN, balls, CompressedReplayBuffer),
    "dqn-stacks": Training(DQN, stacked_balls, CompressedReplayBuffer),
    "dqn-noise": Training(DQN, noise, CompressedReplayBuffer),
    "dqn-vectors": Training(DQN, partial(balls, "vector", 1), CompressedReplayBuffer, codec=DELTA),
    "dqn-plain-vectors": Training(DQN, partial(balls, "vector", 2), CompressedReplayBuffer),
    "dqn-cartpole": Training(DQN, partial(classic, "CartPole-v1", 2, 20), CompressedReplayBuffer, codec=DELTA),
    "dqn-dict": Training(DQN, partial(balls, BOTH), CompressedDictReplayBuffer),
    "dqn-rooms": Training(DQN, rooms, CompressedDictReplayBuffer),
    "dqn-normalized": Training(DQN, normalized_balls, CompressedReplayBuffer, codec=DELTA),
    "dqn-normalized-rewards": Training(DQN, partial(normalized_balls, "image"), CompressedReplayBuffer),
    "dqn-n-step": Training(DQN, balls, CompressedNStepReplayBuffer, NStepReplayBuffer, buffer=N_STEP),
    "dqn-n-step-normalized": Training(
        DQN, normalized_balls, CompressedNStepReplayBuffer, NStepReplayBuffer, buffer=N_STEP, codec=DELTA
    ),
    "dqn-her-images": Training(
        DQN, partial(bits, images=True), CompressedHerReplayBuffer, HerReplayBuffer, buffer=GOALS
    ),
    "qrdqn-images": Training(QRDQN, balls, CompressedReplayBuffer),
    "qrdqn-vectors": Training(QRDQN, partial(balls, "vector"), CompressedReplayBuffer, codec=DELTA),
    "qrdqn-dict": Training(QRDQN, partial(balls, BOTH), CompressedDictReplayBuffer),
    "sac-images": Training(SAC, partial(balls, continuous=True), CompressedReplayBuffer),
    "sac-vectors": Training(SAC, partial(balls, "vector", continuous=True), CompressedReplayBuffer, codec=DELTA),
    "sac-pendulum": Training(SAC, partial(classic, "Pendulum-v1", 1, 30), CompressedReplayBuffer, codec=DELTA),
    "sac-dict": Training(SAC, partial(balls, BOTH, continuous=True), CompressedDictReplayBuffer),
    "sac-normalized-dict": Training(SAC, partial(normalized_balls, BOTH, continuous=True), CompressedDictReplayBuffer),
    "sac-n-step": Training(
        SAC,
        partial(balls, "vector", continuous=True),
        CompressedNStepReplayBuffer,
        NStepReplayBuffer,
        buffer=N_STEP,
        codec=DELTA,
    ),
    "sac-her": Training(
        SAC, partial(bits, continuous=True), CompressedHerReplayBuffer, HerReplayBuffer, buffer=GOALS, codec=DELTA
    ),
    "td3-vectors": Training(TD3, partial(balls, "vector", continuous=True), CompressedReplayBuffer, codec=DELTA),
    "td3-images": Training(TD3, partial(balls, continuous=True), CompressedReplayBuffer),
}

ROLLOUTS = {
    "ppo-images": Training(PPO, balls, CompressedRolloutBuffer),
    "ppo-stacks": Training(PPO, stacked_balls, CompressedRolloutBuffer),
    "ppo-vectors": Training(PPO, partial(balls, "vector", continuous=True), CompressedRolloutBuffer, codec=DELTA),
    "ppo-plain-vectors": Training(PPO, partial(balls, "vector", continuous=True), CompressedRolloutBuffer),
    "ppo-cartpole": Training(PPO, partial(classic, "CartPole-v1", 2, 20), CompressedRolloutBuffer, codec=DELTA),
    "ppo-normalized": Training(PPO, normalized_balls, CompressedRolloutBuffer, codec=DELTA),
    "ppo-dict": Training(PPO, partial(balls, BOTH), CompressedDictRolloutBuffer),
    "ppo-normalized-dict": Training(PPO, partial(normalized_balls, BOTH), CompressedDictRolloutBuffer),
    "a2c-images": Training(A2C, balls, CompressedRolloutBuffer),
    "a2c-vectors": Training(A2C, partial(balls, "vector"), CompressedRolloutBuffer, codec=DELTA),
    "a2c-dict": Training(A2C, partial(balls, BOTH), CompressedDictRolloutBuffer),
    "trpo-images": Training(TRPO, balls, CompressedRolloutBuffer),
    "trpo-vectors": Training(TRPO, partial(balls, "vector"), CompressedRolloutBuffer, codec=DELTA),
    "trpo-dict": Training(TRPO, partial(balls, BOTH), CompressedDictRolloutBuffer),
    "recurrent-images": Training(RecurrentPPO, balls, CompressedRecurrentPPO),
    "recurrent-vectors": Training(RecurrentPPO, partial(balls, "vector"), CompressedRecurrentPPO, codec=DELTA),
    "recurrent-dict": Training(RecurrentPPO, partial(balls, BOTH), CompressedRecurrentPPO),
    "maskable-images": Training(MaskablePPO, balls, CompressedMaskableRolloutBuffer),
    "maskable-numbers": Training(MaskablePPO, masked, CompressedMaskableRolloutBuffer, codec=DELTA),
    "maskable-dict": Training(MaskablePPO, partial(balls, BOTH), CompressedMaskableDictRolloutBuffer),
}

RLE, HOSTED = {"compression_method": "rle"}, {"compression_method": "zstd", "buffer_device": "cpu"}
GPU = {
    "dqn-gpu": Training(DQN, balls, GpuReplayBuffer),
    "dqn-gpu-stacks": Training(DQN, stacked_balls, GpuReplayBuffer, codec=RLE),
    "dqn-gpu-noise": Training(DQN, noise, GpuReplayBuffer, codec=HOSTED),
    "dqn-gpu-dict": Training(DQN, partial(balls, BOTH), GpuDictReplayBuffer),
    "sac-gpu-normalized-dict": Training(SAC, partial(normalized_balls, BOTH, continuous=True), GpuDictReplayBuffer),
    "ppo-gpu": Training(PPO, balls, GpuRolloutBuffer),
    "ppo-gpu-stacks": Training(PPO, stacked_balls, GpuRolloutBuffer, codec=RLE),
    "ppo-gpu-dict": Training(PPO, partial(balls, BOTH), GpuDictRolloutBuffer, codec=HOSTED),
}

TRAININGS = REPLAYS | ROLLOUTS | GPU


@by_name(TRAININGS)
def test_same_weights(training: Training) -> None:
    mine = training.trained(compressed=True)
    is_plain = training in (TRAININGS["dqn-plain-vectors"], TRAININGS["ppo-plain-vectors"])
    assert any(is_compressed(mine).values()) != is_plain
    assert_same(weights(mine), stock_weights(training), training)


@by_name({name: REPLAYS[name] for name in ("dqn-images", "sac-dict", "sac-her")})
def test_episodes_end_both_ways(training: Training) -> None:
    buffer = training.trained(compressed=True).replay_buffer
    assert buffer.full
    assert set(buffer.timeouts[buffer.dones == 1]) == {0, 1}


@by_name({name: TRAININGS[name] for name in ("dqn-images", "ppo-images")})
def test_one_wrong_pixel_is_noticed(training: Training) -> None:
    wrong = weights(replace(training, ours=with_one_wrong_pixel(training.ours)).trained(compressed=True))
    assert wrong != stock_weights(training)


@by_name({name: REPLAYS[name] for name in ("dqn-images", "dqn-n-step", "sac-dict", "sac-her")})
def test_optimize_memory_usage_forgets_nothing(training: Training) -> None:
    mine = training.trained(compressed=True, optimize_memory_usage=True)
    assert_same(weights(mine), stock_weights(training), training)


@pytest.mark.parametrize(
    "codec", ["delta", "delta-zstd", "zstd-3", "none", {"image": "rle", "vector": "gzip"}], ids=str
)
@by_name({name: TRAININGS[name] for name in ("sac-dict", "ppo-dict")})
def test_every_codec(training: Training, codec: Any) -> None:
    mine = replace(training, codec={"codec": codec}).trained(compressed=True)
    assert is_compressed(mine) == dict.fromkeys(BOTH, codec != "none")
    assert_same(weights(mine), stock_weights(training), training)


def test_n_step_of_dict_trains_as_that_of_its_only_key() -> None:
    of_box = Training(DQN, partial(balls, "vector"), NStepReplayBuffer, NStepReplayBuffer, buffer=N_STEP)
    of_dict = replace(of_box, env=partial(balls, ("vector",)), ours=CompressedDictNStepReplayBuffer, codec=DELTA)
    mine = of_dict.trained(compressed=True)
    assert is_compressed(mine) == {"vector": True}
    assert_same(weights(mine), stock_weights(of_box), of_box)


def test_n_step_of_dict_samples_each_key_as_if_alone() -> None:
    training = Training(DQN, partial(balls, BOTH), CompressedDictNStepReplayBuffer, buffer=N_STEP)
    model = training.model(compressed=True)
    ours, add = model.replay_buffer, model.replay_buffer.add
    sizes = REPLAY["buffer_size"], model.env.num_envs
    alone = {
        key: NStepReplayBuffer(sizes[0], space, model.action_space, "cpu", sizes[1], **N_STEP)
        for key, space in model.observation_space.items()
    }

    def add_to_all(obs: Any, next_obs: Any, *rest: Any) -> None:
        add(obs, next_obs, *rest)
        for key, buffer in alone.items():
            buffer.add(obs[key], next_obs[key], *rest)

    ours.add = add_to_all
    model.learn(training.steps)
    assert ours.full
    for key, buffer in alone.items():
        set_random_seed(SEED)
        mine = ours.sample(200)
        set_random_seed(SEED)
        stock = buffer.sample(200)
        for name in stock._fields:
            part = getattr(mine, name)
            assert torch.equal(part[key] if isinstance(part, dict) else part, getattr(stock, name))


SAVED = ("dqn-images", "dqn-n-step", "sac-dict", "sac-her")


def continued(model: BaseAlgorithm, training: Training, file: Path, buffer_file: Path | None) -> BaseAlgorithm:
    """What another process would do with the files of a training."""
    set_random_seed(SEED)
    loaded = type(model).load(file, env=training.env(), device="cpu")
    if buffer_file is not None:
        loaded.load_replay_buffer(buffer_file)
    return loaded.learn(100, reset_num_timesteps=False)


# SB3 says so whenever HER's transitions are loaded; it is what new environments want.
@pytest.mark.filterwarnings("ignore:The last trajectory in the replay buffer will be truncated:UserWarning")
@by_name({name: REPLAYS[name] for name in SAVED} | {"dqn-packed": replace(REPLAYS["dqn-images"], codec=PACKED)})
def test_replay_goes_on_after_a_load(training: Training, tmp_path: Path) -> None:
    models = []
    for compressed in (True, False):
        model = training.trained(compressed)
        model.save(tmp_path / "model.zip")
        model.save_replay_buffer(tmp_path / "buffer.pkl")
        models.append(continued(model, training, tmp_path / "model.zip", tmp_path / "buffer.pkl"))
        assert weights(models[-1]) != weights(model)
    assert type(models[0].replay_buffer) is training.ours
    assert any(is_compressed(models[0]).values())
    assert_same(*map(weights, models), training)


@by_name({name: ROLLOUTS[name] for name in ("ppo-images", "ppo-dict", "recurrent-images", "maskable-dict")})
def test_rollout_goes_on_after_a_load(training: Training, tmp_path: Path) -> None:
    training = replace(training, codec=PACKED)
    models = []
    for compressed in (True, False):
        model = training.trained(compressed)
        model.save(tmp_path / "model.zip")
        models.append(continued(model, training, tmp_path / "model.zip", None))
        assert weights(models[-1]) != weights(model)
    assert type(models[0].rollout_buffer) is type(training.model(compressed=True).rollout_buffer)
    assert models[0].rollout_buffer.codec == "delta-zstd"
    assert_same(*map(weights, models), training)


@by_name({name: REPLAYS[name] for name in ("dqn-images", "dqn-dict")})
def test_goes_on_from_a_checkpoint(training: Training, tmp_path: Path) -> None:
    models = []
    for compressed in (True, False):
        folder = tmp_path / str(compressed)
        model = training.model(compressed)
        model.learn(training.steps, CheckpointCallback(35, str(folder), save_replay_buffer=True))
        files = folder / "rl_model_140_steps.zip", folder / "rl_model_replay_buffer_140_steps.pkl"
        models.append(continued(model, training, *files))
    assert any(is_compressed(models[0]).values())
    assert_same(*map(weights, models), training)


@pytest.mark.parametrize(
    ("name", "start_method"),
    [("dqn-images", "fork"), ("dqn-images", "forkserver"), ("dqn-images", "spawn"), ("ppo-images", "fork")],
)
def test_environments_in_processes(name: str, start_method: str) -> None:
    training = TRAININGS[name]
    apart = replace(training, env=partial(training.env, start_method=start_method))
    assert_same(weights(apart.trained(compressed=True)), stock_weights(training), training)


def test_models_that_take_turns() -> None:
    trainings = [TRAININGS[name] for name in ("dqn-images", "ppo-dict", "recurrent-vectors")]
    pairs = []
    for compressed in (True, False):
        models = [training.model(compressed) for training in trainings]
        for _ in range(3):
            for model in models:
                model.learn(60, reset_num_timesteps=False)
        pairs.append(models)
    for training, mine, stock in zip(trainings, *pairs, strict=True):
        assert_same(weights(mine), weights(stock), training)


@by_name(
    {
        "dqn-pacman": Training(DQN, partial(atari, "MsPacman", 1), CompressedReplayBuffer, options={"train_freq": 4}),
        "ppo-pong": Training(PPO, partial(atari, "Pong", 2), CompressedRolloutBuffer),
    }
)
def test_atari(training: Training) -> None:
    test_same_weights(training)


CNN = {"policy_kwargs": {}}  # of full size
LONG = {
    "dqn-pacman": Training(
        DQN,
        partial(atari, "MsPacman", 1),
        CompressedReplayBuffer,
        steps=3500,
        options=CNN | {"buffer_size": 2000, "learning_starts": 500, "batch_size": 32, "train_freq": 4},
    ),
    "ppo-pong": Training(
        PPO,
        partial(atari, "Pong", 8),
        CompressedRolloutBuffer,
        steps=4096,
        options=CNN | {"n_steps": 128, "batch_size": 256, "n_epochs": 2},
    ),
    "sac-pendulum": Training(
        SAC,
        partial(classic, "Pendulum-v1"),
        CompressedReplayBuffer,
        steps=3000,
        options={"policy_kwargs": {}, "buffer_size": 1500, "batch_size": 64, "train_freq": 1},
        codec=DELTA,
    ),
}


@pytest.mark.slow
@by_name(LONG)
def test_long(training: Training) -> None:
    test_same_weights(training)
