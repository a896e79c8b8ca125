"""Recording with SB3: trainings, evaluations, and programs that were written for sb3-extra-buffers."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import compressed_array as ca
import compressed_array.recording as core
from compressed_array.errors import RecordingError
from compressed_array_sb3 import CompressedRolloutBuffer
from compressed_array_sb3.errors import BufferOptionError
from compressed_array_sb3.recording import (
    BaseRecordBuffer,
    CompressedRecordBuffer,
    DummyRecordBuffer,
    FramelessRecordBuffer,
    RecordBuffer,
    RecordCallback,
)
from compressed_array_sb3.recording.base import DummyArray
from compressed_array_sb3.recording.utils import force_alloc_mem
from compressed_array_sb3.training_utils.atari import make_env
from compressed_array_sb3.training_utils.buffer_warmup import warm_up
from compressed_array_sb3.training_utils.eval_model import eval_model
from compressed_array_sb3.vec_buf import DummyVecRolloutBuffer

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
RING = [RecordBuffer, CompressedRecordBuffer]


class Counting(gymnasium.Env[Any, Any]):
    """Counts its steps in what it shows, and is over after `length` of them, differently long for each."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  # as Gymnasium has it
    observation_space = spaces.Box(0, 255, (2,), np.float32)
    render_mode = "rgb_array"

    def __init__(self, length: int, is_continuous: bool = False) -> None:
        self.length, self.at, self.given = length, 0, list[Any]()
        self.action_space = spaces.Box(-3, 5, (1,)) if is_continuous else spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.given.append(np.array(action))
        self.at += 1
        return self._seen(), float(10 * self.length + self.at), self.at == self.length, False, {}

    def render(self) -> Any:
        return np.full((6, 8, 3), self.at, np.uint8)

    def _seen(self) -> Any:
        return np.array([self.length, self.at], np.float32)


def counting(*lengths: int, is_continuous: bool = False) -> DummyVecEnv:
    return DummyVecEnv([lambda length=length: Counting(length, is_continuous) for length in lengths])


def check_counted(recording: BaseRecordBuffer, length: int, steps: int, given: list[Any], frames: str) -> None:
    """What an environment that counts shows before each step, and gives for it."""
    assert len(recording) == steps
    at = 0
    for episode in recording.episodes():
        expected = np.arange(min(length, steps - at))
        assert episode.has_end == (len(expected) == length)
        assert episode.rewards.tolist() == (10 * length + 1 + expected).tolist()
        seen = np.stack(list(episode.iter_frames()))
        np.testing.assert_array_equal(seen[:, 0, 0, 0] if frames == "render" else seen[:, 1], expected)
        at += len(episode)
    np.testing.assert_array_equal(recording.actions, np.stack(given[:steps]))


# While a model trains


@pytest.mark.parametrize("frames", ["render", "observation"])
@pytest.mark.parametrize("is_normalized", [False, True])
def test_each_environment_of_a_training_is_recorded(frames: str, is_normalized: bool) -> None:
    plain = counting(5, 7, is_continuous=True)
    env = VecNormalize(plain) if is_normalized else plain
    recordings = [core.CompressedRecordBuffer(), core.RecordBuffer()]
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, device="cpu", seed=0)
    model.learn(64, callback=RecordCallback(recordings, frames))
    for recording, one in zip(recordings, plain.envs, strict=True):
        check_counted(recording, one.length, 32, one.given, frames)


def test_one_environment_of_an_off_policy_training_is_recorded() -> None:
    env = counting(4, 6, 9, is_continuous=True)
    recording = core.RecordBuffer()
    model = SAC("MlpPolicy", env, learning_starts=10, device="cpu", seed=0)
    model.learn(60, callback=RecordCallback(recording, env=1))
    check_counted(recording, 6, 20, env.envs[1].given, "observation")


def test_a_recording_goes_on_with_its_training() -> None:
    env, recording = counting(10), core.RecordBuffer()
    callback = RecordCallback(recording)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    model.learn(16, callback=callback)
    model.learn(8, callback=callback, reset_num_timesteps=False)
    assert [len(episode) for episode in recording.episodes()] == [10, 10, 4]
    model.learn(8, callback=callback)  # from a reset on
    assert [len(episode) for episode in recording.episodes()] == [10, 10, 4, 8]
    assert [episode.frames[0, 1] for episode in recording.episodes()] == [0, 0, 0, 0]


def test_a_part_of_an_observation_is_recorded() -> None:
    class Two(gymnasium.ObservationWrapper[Any, Any, Any]):
        observation_space = spaces.Dict(place=Counting.observation_space, more=Counting.observation_space)

        def observation(self, observation: Any) -> Any:
            return {"place": observation, "more": -observation}

    recording = core.RecordBuffer()
    model = PPO("MultiInputPolicy", Two(Counting(5)), n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    model.learn(16, callback=RecordCallback(recording, lambda obs: obs["more"]))
    np.testing.assert_array_equal(recording.frames[:, 1], -(np.arange(16) % 5))


class Watch(BaseCallback):
    """Keeps what the model saw, by SB3's own buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        buffer: Any = self.model.rollout_buffer  # type: ignore[attr-defined]  # of PPO
        self.seen.append((buffer.observations[:].copy(), buffer.actions[:].copy()))


def test_ppo_on_atari_is_recorded_as_its_rollouts_are(tmp_path: Path) -> None:
    env = make_env("MsPacmanNoFrameskip-v4", n_envs=2, vec_env_cls=DummyVecEnv, seed=0)
    recordings = [CompressedRecordBuffer(res=(84, 84), ch_num=4, size=1000), core.CompressedRecordBuffer()]
    watch = Watch()
    model = PPO("CnnPolicy", env, n_steps=64, batch_size=64, n_epochs=1, device="cpu", seed=0)
    model.learn(256, callback=CallbackList([RecordCallback(recordings), watch]))
    env.close()
    observations, actions = (np.concatenate(parts) for parts in zip(*watch.seen, strict=True))
    for i, recording in enumerate(recordings):
        assert len(recording) == 128
        frames = np.concatenate([np.stack(list(episode.iter_frames())) for episode in recording.episodes()])
        np.testing.assert_array_equal(frames, observations[:, i])
        acted = np.concatenate([episode.actions for episode in recording.episodes()])
        np.testing.assert_array_equal(acted, actions[:, i, 0])
        assert recording.nbytes_stored < recording.nbytes
    pytest.importorskip("imageio")
    recordings[1].episode(0).save_video(tmp_path / "game.gif", picture=lambda frame: frame[-1])
    assert (tmp_path / "game.gif").stat().st_size > 1000


def test_lost_lives_do_not_end_a_recorded_game() -> None:
    """SB3's Atari wrapper says done when a life is lost; the Monitor beneath knows better."""
    recording = core.FramelessRecordBuffer()
    env = make_env("BreakoutNoFrameskip-v4", n_envs=1, seed=0)
    dones: list[bool] = []

    class Dones(BaseCallback):
        def _on_step(self) -> bool:
            dones.extend(self.locals["dones"])
            return True

    model = DQN("CnnPolicy", env, buffer_size=100, learning_starts=10**6, device="cpu", seed=0)
    model.learn(400, callback=CallbackList([RecordCallback(recording), Dones()]))
    env.close()
    assert sum(dones) > 2 * recording.n_episodes


def test_recordings_may_come_one_by_one() -> None:
    recordings = [core.RecordBuffer(), core.RecordBuffer()]
    model = PPO("MlpPolicy", counting(3, 3), n_steps=8, batch_size=16, device="cpu")
    model.learn(8, callback=RecordCallback(recording for recording in recordings))
    assert [len(recording) for recording in recordings] == [8, 8]


def test_callbacks_that_cannot_record_say_why() -> None:
    model = PPO("MlpPolicy", counting(3, 3), n_steps=8, batch_size=16, device="cpu")
    with pytest.raises(BufferOptionError, match="1 recordings for 2 environments"):
        model.learn(8, callback=RecordCallback([core.RecordBuffer()]))
    twice = core.RecordBuffer()
    with pytest.raises(BufferOptionError, match="give each its own"):
        RecordCallback([twice, twice])
    with pytest.raises(BufferOptionError, match="no environment 2 among 2"):
        model.learn(8, callback=RecordCallback(core.RecordBuffer(), env=2))
    with pytest.raises(BufferOptionError, match="not 'pixels'"):
        RecordCallback(core.RecordBuffer(), "pixels")
    blind = PPO(
        "MlpPolicy", DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]), n_steps=8, batch_size=8, device="cpu"
    )
    with pytest.raises(BufferOptionError, match="render_mode='rgb_array'"):
        blind.learn(8, callback=RecordCallback(core.RecordBuffer(), "render"))
    for wrong in (None, [None], core.RecordBuffer, [core.RecordBuffer]):
        with pytest.raises(TypeError, match="recordings, such as"):
            RecordCallback(wrong)  # type: ignore[arg-type]
    counted = core.DummyRecordBuffer()
    blind.learn(8, callback=RecordCallback(counted, "render"))
    assert counted.steps == 8


class Living(Counting):
    """Counts its steps in `info`, too, as the lives that are left."""

    def step(self, action: Any) -> Any:
        *rest, info = super().step(action)
        return *rest, info | {"lives": self.length - self.at, "place": np.array([self.at, 0.5])}


def living(*lengths: int) -> DummyVecEnv:
    return DummyVecEnv([lambda length=length: Living(length) for length in lengths])


@pytest.mark.parametrize("is_normalized", [False, True])
def test_features_of_a_step_are_recorded_beside_it(tmp_path: Path, is_normalized: bool) -> None:
    rollouts: list[Any] = []

    class Rollouts(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            buffer: Any = self.model.rollout_buffer  # type: ignore[attr-defined]  # of PPO
            rollouts.append((buffer.values.copy(), buffer.log_probs.copy()))

    plain = living(5, 7)
    env = VecNormalize(plain) if is_normalized else plain
    recordings = [core.CompressedRecordBuffer(), core.FramelessRecordBuffer(size=20)]
    known = ("env", "action", "reward", "done", "value", "log_prob")
    features: dict[str, Any] = {name: lambda step, name=name: step[name] for name in known}
    features |= {name: lambda step, name=name: step["info"][name] for name in ("lives", "place")}
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, device="cpu", seed=0)
    model.learn(64, callback=CallbackList([RecordCallback(recordings, features=features), Rollouts()]))
    values, log_probs = (np.concatenate(parts) for parts in zip(*rollouts, strict=True))
    for i, (recording, length) in enumerate(zip(recordings, (5, 7), strict=True)):
        held, at = recording.features, np.arange(32)[-len(recording) :] % length + 1
        assert list(held) == list(features)
        np.testing.assert_array_equal(held["value"], values[-len(recording) :, i])
        np.testing.assert_array_equal(held["log_prob"], log_probs[-len(recording) :, i])
        np.testing.assert_array_equal(held["lives"], length - at)
        np.testing.assert_array_equal(held["place"], np.stack([at, np.full(len(at), 0.5)], 1))
        np.testing.assert_array_equal(held["reward"], recording.rewards)
        np.testing.assert_array_equal(held["action"], recording.actions)
        np.testing.assert_array_equal(held["done"], at == length)
        assert (held["env"] == i).all()
        recording.save(tmp_path / "game.rec")
        np.testing.assert_array_equal(core.load(tmp_path / "game.rec").features["lives"], length - at)


def test_features_of_an_off_policy_training_are_recorded() -> None:
    recording = core.RecordBuffer()
    model = DQN("MlpPolicy", living(4), learning_starts=10, device="cpu", seed=0)
    callback = RecordCallback(recording, features={"lives": lambda step: step["info"]["lives"]})
    model.learn(20, callback=callback)
    assert recording.features["lives"].tolist() == [3, 2, 1, 0] * 5
    wrong = RecordCallback(recording, features={"v": lambda step: step["value"]})
    with pytest.raises(
        RecordingError,
        match=r"'v' failed with KeyError\('value'\); of a step there are env, info, action, reward, done",
    ):
        model.learn(4, callback=wrong)


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (None, RecordingError, "feature 'lives' is None in a step of environment 1; a feature is a number"),
        ([1, [2, 3]], RecordingError, "feature 'lives' is .* in a step of environment 1"),
        (np.zeros(2), RecordingError, r"lives have shape \(\) in this recording, not \(2,\)"),
        (2.5, ca.LossyWriteError, "lives: "),
        (KeyError("lives"), RecordingError, r"'lives' failed with KeyError\('lives'\); .* in its info .*place"),
        (IndexError("far"), RecordingError, r"'lives' failed with IndexError\('far'\)"),
    ],
)
def test_a_feature_that_fails_later_loses_no_step_before(bad: Any, error: type[Exception], message: str) -> None:
    def lives(step: dict[str, Any]) -> Any:
        if step["env"] == 1 and step["info"]["place"][0] == 6:
            if isinstance(bad, Exception):
                raise bad
            return bad
        return step["info"]["lives"]

    recordings = [core.CompressedRecordBuffer(), core.CompressedRecordBuffer()]
    model = PPO("MlpPolicy", living(5, 7), n_steps=16, batch_size=16, n_epochs=1, device="cpu", seed=0)
    with pytest.raises(error, match=message):
        model.learn(64, callback=RecordCallback(recordings, features={"lives": lives}))
    assert recordings[1].features["lives"].tolist() == [6, 5, 4, 3, 2]
    assert recordings[0].features["lives"].tolist()[:5] == [4, 3, 2, 1, 0]
    # What a recording refuses by itself is found as it is recorded, environment after environment.
    assert len(recordings[0]) == 5 + (error is ca.LossyWriteError or isinstance(bad, np.ndarray))
    assert [len(recording.frames) for recording in recordings] == [len(recording) for recording in recordings]


def test_an_array_that_a_feature_fills_again_and_again_is_recorded_as_it_was() -> None:
    held = np.zeros(1)

    def env(step: dict[str, Any]) -> Any:
        held[0] = step["env"]
        return held

    recordings = [core.RecordBuffer(), core.RecordBuffer()]
    model = PPO("MlpPolicy", living(5, 7), n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    model.learn(16, callback=RecordCallback(recordings, features={"env": env}))
    assert [recording.features["env"].tolist() for recording in recordings] == [[[0]] * 8, [[1]] * 8]


def test_features_that_cannot_be_recorded_are_refused_at_once() -> None:
    def one(step: Any) -> int:
        return 1

    game = core.RecordBuffer()
    for name in ("frames", "rewards", "actions", "a/b", "", 3):
        with pytest.raises(RecordingError, match="name"):
            RecordCallback(game, features={name: one})  # type: ignore[dict-item]
    for wrong in ({"lives": 3}, ["lives"], one):
        with pytest.raises(BufferOptionError, match="functions of a step, by name"):
            RecordCallback(game, features=wrong)  # type: ignore[arg-type]
    for unnamed in (RecordBuffer(), FramelessRecordBuffer()):
        with pytest.raises(BufferOptionError, match="features have no names: use the one of"):
            RecordCallback([game, unnamed], features={"lives": one})
    nothing = DummyRecordBuffer()
    model = PPO("MlpPolicy", living(5), n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    model.learn(8, callback=RecordCallback(nothing, features={"lives": lambda step: step["info"]["none"]}))
    assert nothing.steps == 8


# Where sb3-extra-buffers fails


def test_16_a_model_is_evaluated_without_a_buffer() -> None:
    assert eval_model(2, counting(3), None, buffer=None) == ([36.0 + 60, 36.0 + 60], [])


@pytest.mark.parametrize("n_envs", [1, 2])
def test_16_recordings_are_taken_where_a_model_is_evaluated(n_envs: int) -> None:
    for buffer in (RecordBuffer, FramelessRecordBuffer, DummyRecordBuffer, CompressedRecordBuffer):
        assert issubclass(buffer, BaseRecordBuffer)
    env = counting(*[5, 3][:n_envs], is_continuous=True)
    stock = ReplayBuffer(1000, env.observation_space, env.action_space, n_envs=n_envs)
    recording, nothing = core.CompressedRecordBuffer(), DummyRecordBuffer()
    _, seconds = eval_model(4, env, None, close_env=False, buffer=[recording, stock, nothing])
    assert len(seconds) == 3
    check_counted(recording, 5, stock.pos, env.envs[0].given, "observation")
    assert nothing.steps == stock.pos
    with pytest.raises(ValueError, match="no buffer to warm up"):
        warm_up(recording, n_envs, env, None)
    warm_up([stock, recording], n_envs, env, None, warmup_episodes=2)
    assert len(recording) == stock.pos


def test_16_a_recording_of_pictures_is_filled_by_atari() -> None:
    env = make_env("PongNoFrameskip-v4", n_envs=1, seed=0, max_num_frames_per_episode=400)
    recording = RecordBuffer(res=(84, 84), ch_num=4, size=500)
    eval_model(1, env, None, buffer=recording)
    assert 20 < len(recording) < 500
    assert recording.episode(0).has_end
    assert recording.frames.shape == (500, 4, 84, 84)
    assert recording.frames[0].any()


@pytest.mark.parametrize("cls", [*RING, FramelessRecordBuffer])
def test_17_steps_without_features_go_on_after_the_ring_is_full(cls: Any) -> None:
    buffer = cls(res=(6, 5), ch_num=3, size=4)
    for i in range(11):
        buffer.add(np.full((6, 5, 3), i, np.uint8), i, i)
        assert len(buffer) == min(i + 1, 4)
        assert buffer._ptr == i % 4
    buffer.add_filled(np.full((6, 5, 3), 11, np.uint8), 11, 11)
    assert buffer.rewards.tolist() == [8, 9, 10, 11]
    if buffer.has_frames:
        assert buffer.frames[[0, 3], 0, 0, 0].tolist() == [8, 11]
        assert buffer.frames.shape == (4, 3, 6, 5)


def test_17_a_recording_without_frames_needs_no_features() -> None:
    for given in ({}, {"res": (240, 320), "ch_num": 3}):
        buffer = FramelessRecordBuffer(size=10, **given)
        buffer.add(object(), 1.5, 2)
        assert (len(buffer), buffer.rewards[0], buffer.actions[0]) == (1, 1.5, 2)
        assert isinstance(buffer.frames, DummyArray)
        assert isinstance(buffer.features, DummyArray)


@pytest.mark.parametrize("action", [300, -1, np.array([0.25, -1.5], np.float32), np.int64(2**40), [True, False]])
def test_17_actions_are_kept_as_they_are(action: Any) -> None:
    for cls in (*RING, FramelessRecordBuffer):
        buffer = cls(res=(6, 5), size=4)
        buffer.add(np.zeros((6, 5, 3), np.uint8), 0, action)
        np.testing.assert_array_equal(buffer.actions[0], action)
        assert buffer.actions.dtype == np.asarray(action).dtype


# What worked there


@pytest.mark.parametrize("cls", RING)
def test_pictures_are_kept_channels_first(cls: Any) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (9, 12, 10, 3), dtype=np.uint8)
    buffer = cls((12, 10), 3, 20, [np.uint8, np.float32])
    assert isinstance(buffer.actions, DummyArray)
    for frame in frames:
        buffer.add(frame, 0.5, 1)
    np.testing.assert_array_equal(buffer.frames[:9], frames.transpose(0, 3, 1, 2))
    buffer.add(frames[0].transpose(2, 0, 1), 0.5, 1)
    np.testing.assert_array_equal(buffer.frames[9], buffer.frames[0])
    assert buffer.rewards.dtype == np.float32
    assert (buffer.max_size, buffer.ch_num, buffer.feature_num, buffer.use_features) == (20, 3, 0, False)
    with pytest.raises(ca.recording.RecordingError, match=r"\(12, 10, 3\).*not \(10, 12, 3\)"):
        buffer.add(frames[0].transpose(1, 0, 2), 0.5, 1)


@pytest.mark.parametrize("cls", [*RING, FramelessRecordBuffer])
def test_features_are_kept(cls: Any) -> None:
    frame = np.zeros((6, 5, 3), np.uint8)
    alike = cls(res=(6, 5), size=4, dtypes=[np.uint8, np.float32, np.float32, np.float32])
    mixed = cls(res=(6, 5), size=4, dtypes=[np.uint8, np.float32, "np.uint8", "bool", np.float64])
    for i in range(6):
        alike.add(frame, 0, 0, (i, i / 2))
        mixed.add(frame, 0, 0, (i, i % 2 == 0, i / 4))
    assert alike.features.tolist() == [[4, 2], [5, 2.5], [2, 1], [3, 1.5]]
    assert mixed.features.tolist() == [(4, True, 1.0), (5, False, 1.25), (2, True, 0.5), (3, False, 0.75)]
    assert mixed.episode(0).features["features"]["0"].tolist() == [2, 3, 4, 5]
    with pytest.raises(ca.recording.RecordingError, match="lacks 'features'"):
        alike.add(frame, 0, 0)
    with pytest.raises(ca.recording.RecordingError, match="shape"):
        alike.add(frame, 0, 0, (1,))
    undeclared = cls(res=(6, 5), size=4)
    undeclared.add(frame, 0, 0, (1, 2))
    assert undeclared.features[0].tolist() == [1, 2]


def test_memory_is_asked_for_at_once() -> None:
    for cls in (*RING, FramelessRecordBuffer):
        buffer = cls(res=(6, 5), size=4, dtypes=[np.uint8, np.float32, np.int64])
        force_alloc_mem(buffer, 7)
        assert (buffer.rewards == 7).all()
        if buffer.has_frames:
            assert (buffer.frames[...] == 7).all()
        assert len(buffer) == 0
    nothing = DummyRecordBuffer()
    force_alloc_mem(nothing)
    nothing.frames[0] = nothing.frames.transpose(2, 0, 1)
    nothing.add(1, 2, action=3)
    assert (nothing._ptr, len(nothing)) == (0, 0)


def test_a_saved_recording_is_loaded_by_the_core(tmp_path: Path) -> None:
    buffer = CompressedRecordBuffer(res=(6, 5), size=4, codec="delta")
    for i in range(7):
        buffer.add(np.full((6, 5, 3), i, np.uint8), i, i, done=i == 4)
    buffer.save(tmp_path / "game.rec")
    loaded = core.load(tmp_path / "game.rec")
    assert loaded.frames.read()[:, 0, 0, 0].tolist() == [3, 4, 5, 6]
    assert [len(episode) for episode in loaded.episodes()] == [2, 2]


@pytest.mark.parametrize("use_threads", [False, True])
def test_rollout_buffers_are_told_the_same(use_threads: bool) -> None:
    space, actions = spaces.Box(0, 255, (4,), np.float32), spaces.Discrete(3)
    stock, ours = (cls(8, space, actions, "cpu", n_envs=3) for cls in (RolloutBuffer, CompressedRolloutBuffer))
    together = DummyVecRolloutBuffer(8, space, actions, "cpu", 3, use_threads=use_threads, buffers=iter([stock, ours]))
    assert (together.n_envs, together.gae_lambda) == (3, 1)
    assert together.reset() == [None, None]
    torch = importlib.import_module("torch")
    for i in range(8):
        assert not together.full
        obs = np.full((3, 4), i, np.float32)
        together.add(obs, np.zeros((3, 1)), np.ones(3), np.zeros(3), torch.zeros(3), torch.zeros(3))
    assert together.full
    assert together.size() == [8, 8]
    together.compute_returns_and_advantage(last_values=torch.zeros(3), dones=np.zeros(3))
    batches = [next(iter(batch)) for batch in together.get(24)]
    for one in batches:
        assert sorted(one.observations[:, 0].tolist()) == sorted(list(range(8)) * 3)
    lone = DummyVecRolloutBuffer(8, space, actions, use_threads=True)
    assert lone.add(1) == []


@pytest.mark.parametrize("module", ["record_buffer", "dummy_record_buffers", "_callback"])
def test_the_examples_in_docstrings_run(module: str) -> None:
    done = doctest.testmod(importlib.import_module(f"compressed_array_sb3.recording.{module}"))
    assert done.attempted
    assert not done.failed


def test_the_example_runs(tmp_path: Path) -> None:
    pytest.importorskip("imageio")
    command = [sys.executable, "-W", "error", str(ROOT / "examples/record_episode.py"), "--smoke"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mspacman.gif").stat().st_size > 10_000
