"""Programs written for sb3-extra-buffers, with the name of the package changed and nothing else."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

import compressed_array as ca
import compressed_array_sb3 as cab
from compressed_array_sb3 import _extra_buffers
from sb3_helpers.ball import Ball
from sb3_helpers.experience import DICT, SPACES, play, seeded
from sb3_helpers.training_envs import together

ACTIONS = spaces.Discrete(4)
STACKED = SPACES["stacked"]

# Modules and what users of sb3-extra-buffers import from them: its package, examples, tests and documents.
IMPORTS = {
    "": ["__version__", "sb3_version"],
    "compressed": [
        "CompressedArray",
        "CompressedDictReplayBuffer",
        "CompressedDictRolloutBuffer",
        "CompressedReplayBuffer",
        "CompressedRolloutBuffer",
        "DummyCls",
        "find_buffer_dtypes",
        "find_smallest_dtype",
        "has_igzip",
        "has_numba",
        "init_jit",
    ],
    "compressed.base": ["BaseCompressedBuffer", "DummyCls", "find_buffer_dtypes", "init_jit", "COMPRESSION_METHOD_MAP"],
    "compressed.utils": ["find_smallest_dtype"],
    "compressed.compressed_array": ["CompressedArray"],
    "compressed.compressed_replay": ["CompressedDictReplayBuffer", "CompressedReplayBuffer"],
    "compressed.compressed_rollout": ["CompressedDictRolloutBuffer", "CompressedRolloutBuffer"],
    "compressed.compression_methods": ["COMPRESSION_METHOD_MAP", "has_igzip", "has_numba", "has_zstd", "has_lz4"],
    "compressed.compression_methods.compression_methods": [
        "COMPRESSION_METHOD_MAP",
        "CompressionMethods",
        "gzip_compress",
        "gzip_decompress",
        "igzip_compress",
        "igzip_decompress",
        "no_compress",
        "no_decompress",
        "rle_compress",
        "rle_numpy_decompress",
        "rle_numpy_decompress_old",
    ],
    "compressed.compression_methods.compression_methods_lz4": [
        "lz4_block_compress",
        "lz4_block_decompress",
        "lz4_frame_compress",
        "lz4_frame_decompress",
    ],
    "compressed.compression_methods.compression_methods_numba": ["init_jit", "rle_numba_decompress"],
    "compressed.compression_methods.compression_methods_zstd": ["zstd_compress", "zstd_decompress"],
    "gpu_buffers": ["BaseGpuBuffer", "GpuReplayBuffer", "GpuRolloutBuffer", "find_gpu_buffer_dtypes", "has_zstd"],
    "gpu_buffers.compression_methods": ["COMPRESSION_METHOD_MAP", "has_zstd"],
    "gpu_buffers.utils": ["estimate_max_slot_bytes", "estimate_total_heap_bytes", "find_smallest_dtype"],
    "recording": ["BaseRecordBuffer", "DummyRecordBuffer", "FramelessRecordBuffer", "RecordBuffer"],
    "recording.base": ["BaseRecordBuffer", "DummyArray"],
    "recording.dummy_record_buffers": ["DummyRecordBuffer", "FramelessRecordBuffer"],
    "recording.record_buffer": ["RecordBuffer"],
    "recording.utils": ["force_alloc_mem"],
    "training_utils.atari": ["make_env"],
    "training_utils.buffer_warmup": ["eval_model", "warm_up"],
    "training_utils.eval_model": ["eval_model"],
    "vec_buf": ["DummyVecRolloutBuffer"],
    "vec_buf.buffers": ["DummyVecRolloutBuffer"],
}


@pytest.mark.parametrize("module", IMPORTS)
def test_names_are_where_they_were(module: str) -> None:
    found = importlib.import_module(f"compressed_array_sb3.{module}".rstrip("."))
    assert [name for name in IMPORTS[module] if not hasattr(found, name)] == []


def test_nothing_else_imports_what_is_there_for_compatibility() -> None:
    """So that a reader may skip it: `_extra_buffers` lists it, and each of its modules begins by saying so."""
    package = Path(str(cab.__file__)).parent
    compatible = {*package.glob("compressed/**/*.py"), *package.glob("gpu_buffers/*.py"), package / "_extra_buffers.py"}
    assert all(file.read_text().startswith('"""Compatibility only: ') for file in compatible)
    names = {file.parent.name if file.stem == "__init__" else file.stem for file in compatible} - {"_extra_buffers"}
    assert [name for name in names if f"`{name}`" not in str(_extra_buffers.__doc__)] == []
    for file in {*package.rglob("*.py")} - compatible - {package / "__init__.py"}:
        text = file.read_text()
        for name in ("compressed", "gpu_buffers", "_extra_buffers"):
            assert f"compressed_array_sb3.{name}" not in text, file


def test_the_version_of_sb3_is_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cab.sb3_version() >= (2, 7, 0)
    for text, numbers in {
        "2.7.1a0": (2, 7, 1),
        "2.8": (2, 8, 0),
        "3.0.0rc1": (3, 0, 0),
        "2.7.post1": (2, 7, 0),
    }.items():
        monkeypatch.setattr("stable_baselines3.__version__", text)
        assert cab.sb3_version() == numbers


# Compression methods

EXAMPLES = [
    "none",
    "rle",
    "igzip0",
    "igzip1",
    "igzip3",
    "gzip0",
    "gzip1",
    "gzip3",
    "zstd1",
    "zstd3",
    "zstd5",
    "zstd-1",
    "zstd-3",
    "zstd-5",
    "zstd10",
    "zstd15",
    "zstd22",
    "zstd-20",
    "zstd-50",
    "zstd-100",
    "lz4-frame/1",
    "lz4-frame/5",
    "lz4-frame/9",
    "lz4-frame/12",
    "lz4-block/1",
    "lz4-block/5",
    "lz4-block/9",
    "rle-jit",
    "rle-old",
]
NEAREST = {
    "lz4-block/16": "lz4-block/12",
    "lz4-frame/99": "lz4-frame/16",
    "igzip9": "igzip3",
    "gzip12": "gzip9",
    "zstd99": "zstd22",
    "zstd-200": "zstd-100",
    "none1": None,
}


@pytest.mark.parametrize("method", EXAMPLES)
def test_the_methods_of_the_examples_are_taken_as_they_are(method: str) -> None:
    buffer = cab.CompressedReplayBuffer(9, STACKED, ACTIONS, compression_method=method)  # a warning would be an error
    step = next(play(STACKED, ACTIONS, 1, 1))
    buffer.add(*step)
    np.testing.assert_array_equal(buffer.sample(1).observations.numpy(), step.obs)


@pytest.mark.parametrize(("method", "used"), NEAREST.items())
def test_a_level_that_there_is_not_is_the_nearest_and_says_so(method: str, used: str | None) -> None:
    for cls in (cab.CompressedReplayBuffer, cab.CompressedRolloutBuffer):
        with pytest.warns(cab.CodecLevelWarning, match=repr(used or "none")) as caught:
            buffer = cls(9, STACKED, ACTIONS, compression_method=method)
        assert [warning.filename for warning in caught] == [__file__]
        if used is None:
            assert type(buffer.observations) is np.ndarray
        else:
            assert ca.shorthand(buffer.observations.codec) == used
    if used is not None:
        with pytest.raises(ca.CodecLevelError):  # in our own word, a level that there is not is a mistake
            cab.CompressedReplayBuffer(9, STACKED, ACTIONS, codec=method)


def test_a_level_among_the_kwargs_is_the_nearest_too() -> None:
    options = {"compression_method": "lz4-block", "compression_kwargs": {"compresslevel": 16}}
    with pytest.warns(cab.CodecLevelWarning, match="lz4-block/12"):
        buffer = cab.CompressedReplayBuffer(9, STACKED, ACTIONS, **options)
    assert ca.shorthand(buffer.observations.codec) == "lz4-block/12"
    with pytest.raises(ca.CodecLevelError, match="no levels"):
        cab.CompressedReplayBuffer(9, STACKED, ACTIONS, compression_method="rle5")


def method_map() -> Any:
    return importlib.import_module("compressed_array_sb3.compressed.base").COMPRESSION_METHOD_MAP


@pytest.mark.parametrize(
    "name", ["none", "rle", "rle-old", "rle-jit", "gzip", "igzip", "zstd", "lz4-frame", "lz4-block"]
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_methods_are_pairs_of_functions(name: str, dtype: Any) -> None:
    method, types = method_map()[name], {"elem_type": dtype, "runs_type": np.uint16}
    array = np.repeat(np.arange(50), 40).astype(dtype)
    data = method.compress(array, **types)
    assert type(data) is bytes
    assert name == "none" or len(data) < array.nbytes / 2
    config = {"shape": array.size, "dtype": dtype}
    np.testing.assert_array_equal(method.decompress(data, arr_configs=config, **types), array)
    np.testing.assert_array_equal(method.decompress(data, **types), array)


def test_methods_take_levels_and_change_no_value() -> None:
    array = np.random.default_rng(0).integers(0, 9, 20_000).astype(np.uint8)
    zstd = method_map()["zstd"]
    assert len(zstd.compress(array, compresslevel=19)) < len(zstd.compress(array, compresslevel=-50))
    with pytest.raises(ca.LossyWriteError):
        zstd.compress(np.array([300]), elem_type=np.uint8)


# Buffers


@pytest.mark.parametrize("codec", ["auto", "zstd-3", "none"])
def test_one_observation_is_reconstructed(codec: str) -> None:
    steps = list(play(STACKED, ACTIONS, 2, 6))
    buffer = cab.CompressedReplayBuffer(12, STACKED, ACTIONS, n_envs=2, codec=codec)
    rollout = cab.CompressedRolloutBuffer(6, STACKED, ACTIONS, n_envs=2, device="cpu", codec=codec)
    for step in steps:
        buffer.add(*step)
        rollout.add(step.obs, step.action, step.reward, step.done, torch.zeros(2), torch.zeros(2))
    np.testing.assert_array_equal(buffer.reconstruct_obs(4, 1), steps[4].obs[1])
    np.testing.assert_array_equal(buffer.reconstruct_nextobs(3, 0), steps[3].next_obs[0])
    buffer.reconstruct_obs(4, 1)[:] = 0
    np.testing.assert_array_equal(buffer.reconstruct_obs(4, 1), steps[4].obs[1])
    for _ in range(2):  # before a rollout is flattened, and after
        assert torch.equal(rollout.reconstruct_obs(6 + 4), torch.from_numpy(steps[4].obs[1]))
        seeded(0, rollout.get, 4)


def test_one_observation_of_all_keys_is_reconstructed() -> None:
    step = next(play(DICT, ACTIONS, 1, 1))
    buffer = cab.CompressedDictReplayBuffer(12, DICT, ACTIONS)
    buffer.add(*step)
    for key, value in buffer.reconstruct_obs(0, 0).items():
        np.testing.assert_array_equal(value, np.reshape(step.obs[key][0], value.shape))


def test_they_are_buffers_of_the_base_class() -> None:
    base = importlib.import_module("compressed_array_sb3.compressed.base").BaseCompressedBuffer
    assert isinstance(cab.CompressedReplayBuffer(9, STACKED, ACTIONS), base)
    assert not isinstance(ReplayBuffer(9, STACKED, ACTIONS), base)


def test_a_slot_of_the_estimated_size_is_enough_for_noise() -> None:
    utils = importlib.import_module("compressed_array_sb3.gpu_buffers.utils")
    space = spaces.Box(0, 255, (32, 32), np.uint8)
    most = utils.estimate_max_slot_bytes((32, 32), np.uint8, np.uint16, "rle", overalloc_factor=1.5)
    assert 1024 <= most < 1200
    assert most == utils.estimate_max_slot_bytes(1024, torch.uint8)
    for method in ("rle", "zstd-3"):
        options = {"heap_bytes": 2 * 60 * most, "compression_method": method, "device": "cpu"}
        buffer = cab.GpuReplayBuffer(60, space, ACTIONS, **options)
        for obs in np.random.default_rng(0).integers(0, 256, (61, 1, 32, 32)).astype(np.uint8):
            buffer.add(obs, obs[:, ::-1], np.zeros(1), np.zeros(1), np.zeros(1), [{}])
        np.testing.assert_array_equal(buffer.observations[0].cpu().numpy(), obs)


# What its examples do, on a small game


def game(n_envs: int) -> Any:
    return together(lambda: Ball("vector"), n_envs)


def test_a_model_is_trained_saved_and_evaluated(tmp_path: Path) -> None:
    compressed = importlib.import_module("compressed_array_sb3.compressed")
    eval_model = importlib.import_module("compressed_array_sb3.training_utils.eval_model").eval_model
    space = game(1).observation_space
    dtypes = compressed.find_buffer_dtypes(space.shape, elem_dtype=space.dtype, compression_method="rle-jit")
    kwargs = {"dtypes": dtypes, "compression_method": "rle-jit"}
    options: dict[str, Any] = {"buffer_size": 200, "learning_starts": 20, "device": "cpu", "seed": 0}
    replay = {"replay_buffer_class": compressed.CompressedReplayBuffer, "replay_buffer_kwargs": kwargs}
    DQN("MlpPolicy", game(1), **options, **replay).learn(40).save(tmp_path / "dqn")
    options = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "device": "cpu", "seed": 0}
    rollout = {"rollout_buffer_class": compressed.CompressedRolloutBuffer, "rollout_buffer_kwargs": kwargs}
    PPO("MlpPolicy", game(2), **options, **rollout).learn(32).save(tmp_path / "ppo")
    dqn = DQN.load(tmp_path / "dqn", custom_objects={"replay_buffer_class": compressed.DummyCls})
    ppo = PPO.load(tmp_path / "ppo", custom_objects={"rollout_buffer_class": compressed.DummyCls})
    for model in (dqn, ppo):
        returns, seconds = eval_model(3, game(2), model, close_env=True)
        assert (len(returns), seconds) == (3, [])


@pytest.mark.parametrize("is_stock", [False, True])
def test_more_environments_than_the_buffer_has_are_split(is_stock: bool) -> None:
    """Row by row the first `n_envs`, then the next ones: what a buffer of all columns holds, in another order."""
    play_into = importlib.import_module("compressed_array_sb3.training_utils.buffer_warmup")
    cls = ReplayBuffer if is_stock else cab.CompressedReplayBuffer
    env = game(6)
    wide, narrow = (cls(200 * n, env.observation_space, env.action_space, device="cpu", n_envs=n) for n in (6, 2))
    env.seed(0)
    env.action_space.seed(0)
    play_into.eval_model(2, env, None, close_env=False, buffer=[wide, narrow])
    assert 1 < wide.pos <= 60
    assert (narrow.pos, narrow.full) == (3 * wide.pos, False)
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        one, other = (getattr(buffer, name)[np.arange(buffer.pos)] for buffer in (wide, narrow))
        np.testing.assert_array_equal(other, one.reshape(other.shape))
    assert len(play_into.warm_up(narrow, 2, env, None, warmup_episodes=7)[0]) == 7


@pytest.mark.parametrize("kind", ["her", "n-step", "optimize", "3 of 4"])
def test_what_cannot_be_split_is_refused(kind: str) -> None:
    eval_model = importlib.import_module("compressed_array_sb3.training_utils.eval_model").eval_model
    env = game(4)
    given = (50, env.observation_space, env.action_space)
    if kind == "her":
        goals = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), STACKED))
        buffer: Any = HerReplayBuffer(50, goals, env.action_space, env, n_envs=2)
    elif kind == "n-step":
        buffer = NStepReplayBuffer(*given, n_envs=2)
    elif kind == "optimize":
        buffer = ReplayBuffer(*given, n_envs=2, optimize_memory_usage=True, handle_timeout_termination=False)
    else:
        buffer = cab.CompressedReplayBuffer(*given, n_envs=3)
    with pytest.raises(ValueError, match="multiple" if kind == "3 of 4" else "n_envs=4, not 2"):
        eval_model(1, env, None, buffer=buffer)


def test_training_goes_on_in_the_environment_that_warmed_up() -> None:
    warm_up = importlib.import_module("compressed_array_sb3.training_utils.buffer_warmup").warm_up
    env = make_vec_env("CartPole-v1", 2)
    closed: list[bool] = []
    env.close = lambda: closed.append(True)  # type: ignore[method-assign]  # to see whether it is called
    options = {"learning_starts": 0, "buffer_size": 400, "device": "cpu", "seed": 0}
    model = DQN("MlpPolicy", env, replay_buffer_class=cab.CompressedReplayBuffer, **options)
    assert model.replay_buffer is not None
    warm_up(model.replay_buffer, 2, env, model, warmup_episodes=3)
    warm = model.replay_buffer.pos
    model.learn(24)
    assert model.replay_buffer.pos == warm + 12
    assert closed == []
