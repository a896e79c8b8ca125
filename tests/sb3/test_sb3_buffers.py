"""What SB3 and its users do with a buffer beside sampling it: attributes, pickles, memory, threads, logs."""

from __future__ import annotations

import gc
import linecache
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.logger import configure
from stable_baselines3.common.save_util import load_from_pkl, save_to_pkl

import compressed_array_sb3 as cab
from compressed_array_sb3 import replay
from sb3_helpers.experience import DICT, SPACES, assert_same, play, seeded

ACTIONS = spaces.Discrete(4)
STACKED = SPACES["stacked"]


def filled(cls: Any, space: Any, size: int, steps: int, n_envs: int = 4, **options: Any) -> Any:
    buffer = cls(size, space, ACTIONS, n_envs=n_envs, **options)
    for step in play(space, ACTIONS, n_envs, steps):
        buffer.add(*step)
    return buffer


def test_attributes_are_arrays() -> None:
    ours, stock = (filled(cls, STACKED, 200, 70) for cls in (cab.CompressedReplayBuffer, ReplayBuffer))
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        mine, theirs = getattr(ours, name), getattr(stock, name)
        assert (mine.shape, mine.dtype, mine.nbytes) == (theirs.shape, theirs.dtype, theirs.nbytes)
        assert np.allclose(mine, theirs)
        np.testing.assert_array_equal(mine[3:9:2, 1], theirs[3:9:2, 1])
        np.testing.assert_array_equal(mine[-1], theirs[-1])


def test_extend() -> None:
    steps = list(play(STACKED, ACTIONS, 4, 20))
    ours, stock = (cls(200, STACKED, ACTIONS, n_envs=4) for cls in (cab.CompressedReplayBuffer, ReplayBuffer))
    for buffer in (ours, stock):
        buffer.extend(*(list(column) for column in zip(*steps, strict=True)))
    assert_same(seeded(0, ours.sample, 50), seeded(0, stock.sample, 50))


def test_one_environment_needs_no_axis_of_its_own() -> None:
    ours, stock = (cls(10, STACKED, ACTIONS) for cls in (cab.CompressedReplayBuffer, ReplayBuffer))
    for step in play(STACKED, ACTIONS, 1, 10):
        for buffer in (ours, stock):
            buffer.add(step.obs[0], step.next_obs[0], step.action, step.reward, step.done, step.infos)
    assert_same(seeded(0, ours.sample, 20), seeded(0, stock.sample, 20))


def test_floats_are_rounded_as_sb3_rounds_them() -> None:
    space = SPACES["vector"]
    ours, stock = (cls(10, space, ACTIONS) for cls in (cab.CompressedReplayBuffer, ReplayBuffer))
    for obs in np.random.default_rng(0).normal(size=(10, 1, 17)):
        for buffer in (ours, stock):
            buffer.add(obs, -obs, np.zeros(1), np.zeros(1), np.zeros(1), [{}])
    assert_same(seeded(0, ours.sample, 20), seeded(0, stock.sample, 20))


def test_samples_belong_to_the_caller() -> None:
    """Tensors stand on decoded memory, so writing to them must change nothing else."""
    buffer = filled(cab.CompressedReplayBuffer, STACKED, 200, 70)
    before = seeded(0, buffer.sample, 50)
    spoilt = seeded(0, buffer.sample, 50)
    for field in (spoilt.observations, spoilt.next_observations, spoilt.actions, spoilt.rewards, spoilt.dones):
        field.zero_()
    assert_same(seeded(0, buffer.sample, 50), before)
    pointers = {field.data_ptr() for field in (*before[:5], *spoilt[:5])}
    assert len(pointers) == 10


def test_obs_and_next_obs_are_decoded_in_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = filled(cab.CompressedReplayBuffer, STACKED, 200, 70)
    wanted = seeded(0, buffer.sample, 50)
    calls, store = [], type(buffer.observations.store)
    monkeypatch.setattr(store, "read_pair", lambda *args, real=store.read_pair: calls.append(args) or real(*args))
    monkeypatch.setattr(store, "read", None)  # nothing is read alone
    assert_same(seeded(0, buffer.sample, 50), wanted)
    assert len(calls) == 1


def test_memory_is_said() -> None:
    buffer = filled(cab.CompressedReplayBuffer, STACKED, 400, 100)
    usage = buffer.memory_usage()
    assert (usage.transitions, usage.capacity) == (400, 400)
    assert usage.raw == buffer.observations.nbytes + buffer.next_observations.nbytes
    assert usage.stored == sum(key.stored for key in usage.keys.values()) < usage.raw / 10
    assert usage.rest == sum(getattr(buffer, n).nbytes for n in ("actions", "rewards", "dones", "timeouts"))
    # Nearly every observation but the first of an episode was the next observation before.
    assert 0.8 * 400 < usage.shared < 400
    assert usage.ratio == usage.raw / usage.stored
    text = repr(buffer)
    for part in ("CompressedReplayBuffer", "400 of 400 transitions", "smaller", "shared", "everything else"):
        assert part in text


@pytest.mark.parametrize("codec", ["zstd-3", "gzip1", "rle-jit", "delta"])
def test_a_next_observation_is_kept_once_by_every_codec(codec: str) -> None:
    """Also by what goes on from a pickle, and for good: the ring goes round."""
    buffer = filled(cab.CompressedReplayBuffer, STACKED, 200, 40, codec=codec)
    buffer = pickle.loads(pickle.dumps(buffer))
    assert buffer.observations.store is buffer.next_observations.store
    for step in list(play(STACKED, ACTIONS, 4, 70))[40:]:
        buffer.add(*step)
    usage = buffer.memory_usage()
    assert usage.transitions == 200
    assert usage.shared > 0.8 * 200


def test_memory_of_each_key() -> None:
    buffer = filled(cab.CompressedDictReplayBuffer, DICT, 400, 50)
    usage = buffer.memory_usage()
    assert list(usage.keys) == list(DICT.spaces)
    assert usage.keys["image"].raw == 200 * 2 * STACKED.shape[0] * 36 * 36
    assert usage.keys["colour"].codec == "plain"
    assert usage.keys["colour"].stored == 400 * 2 * 8
    assert "image" in repr(buffer)


def test_memory_of_a_rollout_before_and_after_it_is_flattened() -> None:
    buffer = cab.CompressedRolloutBuffer(20, STACKED, ACTIONS, n_envs=4)
    for step in play(STACKED, ACTIONS, 4, 20):
        buffer.add(step.obs, step.action, step.reward, step.done, torch.zeros(4), torch.zeros(4))
    before = buffer.memory_usage()
    list(buffer.get(16))
    after = buffer.memory_usage()
    assert (before.raw, before.transitions) == (after.raw, after.transitions) == (80 * 4 * 36 * 36, 80)


GROWTH = """
import sys
import numpy as np
from gymnasium import spaces
from stable_baselines3 import DQN  # all that would be imported later
import compressed_array_sb3 as cab

def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmPeak:"):
            return int(line.split()[1]) * 1024

image = spaces.Box(0, 255, (4, 84, 84), np.uint8)
cab.CompressedReplayBuffer(1000, image, spaces.Discrete(3), n_envs=4)
before = peak()
if sys.argv[1] == "dict":
    cab.CompressedDictReplayBuffer(400_000, spaces.Dict({"image": image}), spaces.Discrete(3), n_envs=4)
elif sys.argv[1] == "rollout":
    cab.CompressedRolloutBuffer(100_000, image, spaces.Discrete(3), n_envs=4).reset()
else:
    cab.CompressedReplayBuffer(400_000, image, spaces.Discrete(3), n_envs=4).reset()
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the process's peak from /proc")
@pytest.mark.parametrize("kind", ["box", "dict", "rollout"])
def test_plain_arrays_are_never_allocated(kind: str) -> None:
    """Not even asked for: 11 GB of address space would show in the peak of the process's size."""
    run = subprocess.run([sys.executable, "-c", GROWTH, kind], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 100e6


NOISE = np.random.default_rng(0).integers(0, 256, (1000, 64, 100), np.uint8)


def fill_on_a_small_machine(
    free: int, rows: int, monkeypatch: pytest.MonkeyPatch, n_envs: int = 1, codec: Any = "auto"
) -> None:
    monkeypatch.setattr(replay, "available_memory", lambda: free)
    space = spaces.Box(0, 255, (100,), np.uint8)
    buffer = cab.CompressedReplayBuffer(rows * n_envs, space, ACTIONS, n_envs=n_envs, codec=codec)
    zeros = np.zeros(n_envs)
    for obs in NOISE[: min(rows, 1000), :n_envs]:
        buffer.add(obs, obs, zeros, zeros, zeros, [{}] * n_envs)


@pytest.mark.parametrize(
    ("rows", "n_envs", "codec"),
    [(20_000, 1, "delta"), (900, 64, "delta"), (20_000, 1, "none"), (20_000, 1, "delta-zstd")],
)
def test_what_will_not_fit_is_said(rows: int, n_envs: int, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(cab.MemoryForecastWarning, match="will take") as caught:
        fill_on_a_small_machine(rows * n_envs * 30, rows, monkeypatch, n_envs, codec)
    assert [warning.filename for warning in caught] == [__file__]
    assert [linecache.getline(__file__, warning.lineno).split("(")[0].strip() for warning in caught] == ["buffer.add"]


@pytest.mark.parametrize("codec", ["delta", "delta-zstd"])
def test_what_will_fit_is_not_warned_of(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_on_a_small_machine(2_000 * 130, 2_000, monkeypatch, codec=codec)
    fill_on_a_small_machine(1_000_000 * 130, 1_000_000, monkeypatch, codec=codec)  # with a table of 8 MB


@pytest.mark.skipif(sys.platform != "linux", reason="compares with what /proc says")
@pytest.mark.parametrize("has_psutil", [False, True])
def test_free_memory_is_known_without_a_library(has_psutil: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if has_psutil:
        pytest.importorskip("psutil")
    else:
        monkeypatch.setitem(sys.modules, "psutil", None)
    page, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    assert 1e6 < (replay.available_memory() or 0) < page * pages


@pytest.mark.parametrize("codec", ["auto", "delta", "delta-zstd", "zstd-3", "none"])
@pytest.mark.parametrize("kind", ["box", "dict"])
def test_a_pickle_goes_on_where_the_buffer_was(codec: str, kind: str, tmp_path: Path) -> None:
    space = DICT if kind == "dict" else STACKED
    cls = cab.CompressedDictReplayBuffer if kind == "dict" else cab.CompressedReplayBuffer
    buffer = filled(cls, space, 200, 70, codec=codec)
    save_to_pkl(tmp_path / "buffer.pkl", buffer)
    loaded = load_from_pkl(tmp_path / "buffer.pkl")
    for step in play(space, ACTIONS, 4, 90, seed=1):
        assert_same(seeded(0, loaded.sample, 20), seeded(0, buffer.sample, 20))
        buffer.add(*step)
        loaded.add(*step)
    if codec != "none":
        assert loaded.memory_usage().shared > 100
        size = (tmp_path / "buffer.pkl").stat().st_size
        plain = len(pickle.dumps(filled(cls, space, 200, 70, codec="none")))
        assert size < plain / 3


def test_a_reset_lets_go_of_everything() -> None:
    buffer = filled(cab.CompressedReplayBuffer, STACKED, 2000, 500)
    full = buffer.memory_usage().stored
    buffer.reset()
    gc.collect()
    assert buffer.size() == 0
    assert buffer.memory_usage().stored < full / 2
    for step in play(STACKED, ACTIONS, 4, 5):
        buffer.add(*step)
    np.testing.assert_array_equal(buffer.observations[4], step.obs)


def test_threads_sample_while_another_adds() -> None:
    buffer = filled(cab.CompressedReplayBuffer, STACKED, 200, 60)
    stop, wrong = threading.Event(), []

    def sample() -> None:
        while not stop.is_set():
            samples = buffer.sample(16)
            # In each transition of this stream the last three frames of obs are the first three of next_obs.
            if not torch.equal(samples.observations[:, 1:], samples.next_observations[:, :3]):
                wrong.append(samples)

    # A step lies half written for a moment, as in SB3's own buffer, so what is added repeats what is there.
    threads = [threading.Thread(target=sample) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        for step in list(play(STACKED, ACTIONS, 4, 60))[10:60]:
            buffer.add(*step)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("algorithm", [DQN, PPO])
def test_the_callback_logs_to_sb3(algorithm: Any, tmp_path: Path) -> None:
    if algorithm is DQN:
        model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=cab.CompressedReplayBuffer, buffer_size=500)
    else:
        options = {"n_steps": 64, "rollout_buffer_class": cab.CompressedRolloutBuffer, "device": "cpu"}
        model = PPO("MlpPolicy", "CartPole-v1", **options)
    model.set_logger(configure(str(tmp_path), ["csv", "json"]))
    model.learn(300, callback=cab.BufferStatsCallback())
    model.logger.close()
    text = (tmp_path / "progress.csv").read_text()
    for name in ("buffer/transitions", "buffer/raw_mb", "buffer/stored_mb", "buffer/ratio", "buffer/shared"):
        assert name in text


def test_the_callback_is_for_compressed_buffers() -> None:
    model = DQN("MlpPolicy", "CartPole-v1", buffer_size=500)
    with pytest.raises(cab.BufferOptionError, match="ReplayBuffer"):
        model.learn(10, callback=cab.BufferStatsCallback())
