"""What users do at the edges of a buffer: subclasses, odd inputs, resets, long names."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv, SimpleMultiObsEnv
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

import compressed_array as ca
import compressed_array_sb3 as cab
from compressed_array._stores.frames import lanes as _lanes
from compressed_array_sb3._spaces import avoid_copy, checked
from compressed_array_sb3.replay import CompressedReplay
from sb3_helpers.experience import SPACES, assert_same, play, seeded

ACTIONS = spaces.Discrete(4)
STACKED = SPACES["stacked"]


class WithAlpha(cab.CompressedReplayBuffer):
    """A subclass whose arguments are in other places than SB3's."""

    def __init__(
        self,
        buffer_size: int,
        observation_space: Any,
        action_space: Any,
        alpha: float = 0.6,
        device: str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
    ) -> None:
        self.alpha = alpha
        super().__init__(
            buffer_size,
            observation_space,
            action_space,
            device,
            n_envs,
            optimize_memory_usage,
            handle_timeout_termination,
        )


@pytest.mark.parametrize("optimize", [False, True])
def test_a_subclass_may_have_its_own_order_of_arguments(optimize: bool) -> None:
    buffer = WithAlpha(100, STACKED, ACTIONS, 0.5, "cpu", 2, optimize, True)
    assert (buffer.alpha, buffer.n_envs, buffer.handle_timeout_termination) == (0.5, 2, True)
    assert not buffer.optimize_memory_usage


class Looking(ReplayBuffer):
    """A third party's buffer, which looks at what it stores."""

    def add(self, obs: Any, next_obs: Any, *args: Any) -> None:
        self.seen = obs.shape, len(obs), obs[0, 0].mean(), obs.dtype
        super().add(obs, next_obs, *args)


class CompressedLooking(CompressedReplay, Looking):
    pass


def test_a_third_partys_buffer_may_look_at_what_it_stores() -> None:
    ours, stock = (cls(100, STACKED, ACTIONS, n_envs=2) for cls in (CompressedLooking, Looking))
    for step in play(STACKED, ACTIONS, 2, 20):
        ours.add(*step)
        stock.add(*step)
        assert ours.seen == stock.seen
    assert_same(seeded(0, ours.sample, 30), seeded(0, stock.sample, 30))


def test_an_observation_that_is_changed_after_it_was_added_is_not_changed_in_the_buffer() -> None:
    ours, stock = (cls(100, STACKED, ACTIONS, n_envs=2) for cls in (cab.CompressedReplayBuffer, ReplayBuffer))
    for step in play(STACKED, ACTIONS, 2, 20):
        given = [np.array(step.obs), np.array(step.next_obs)]
        stock.add(*step)
        ours.add(*given, *step[2:])
        for array in given:
            array[...] = 255
    assert_same(seeded(0, ours.sample, 30), seeded(0, stock.sample, 30))


def test_one_buffer_extends_another() -> None:
    first, stock = (cls(40, STACKED, ACTIONS, n_envs=2) for cls in (cab.CompressedReplayBuffer, ReplayBuffer))
    for step in play(STACKED, ACTIONS, 2, 20):
        first.add(*step)
        stock.add(*step)
    second = cab.CompressedReplayBuffer(40, STACKED, ACTIONS, n_envs=2)
    infos = [[{"TimeLimit.truncated": bool(t)} for t in row] for row in first.timeouts]
    second.extend(first.observations, first.next_observations, first.actions, first.rewards, first.dones, infos)
    assert_same(seeded(0, second.sample, 30), seeded(0, stock.sample, 30))


def test_numbers_are_rounded_to_floats_as_sb3_rounds_them() -> None:
    space = spaces.Box(-np.inf, np.inf, (40,), np.float32)
    ours, stock = (cls(10, space, ACTIONS) for cls in (cab.CompressedReplayBuffer, ReplayBuffer))
    for number in range(10):
        obs = np.full((1, 40), 1_700_000_001 + number)
        for buffer in (ours, stock):
            buffer.add(obs, obs + 1, np.zeros(1), np.zeros(1), np.zeros(1), [{}])
    assert_same(seeded(0, ours.sample, 30), seeded(0, stock.sample, 30))


def test_a_number_beyond_a_float_is_refused_and_nan_and_infinity_are_kept() -> None:
    space = spaces.Box(-np.inf, np.inf, (100,), np.float32)
    buffer = cab.CompressedReplayBuffer(1, space, ACTIONS)
    good = np.array([[np.nan, np.inf, -np.inf, -0.0] * 25])
    for obs in (good, good.astype(np.float32)):
        buffer.add(obs, obs, np.zeros(1), np.zeros(1), np.zeros(1), [{}])
        assert buffer.sample(1).observations.numpy().tobytes() == good.astype(np.float32).tobytes()
    with pytest.raises(ca.LossyWriteError, match="1e\\+300"):
        buffer.add(np.full((1, 100), 1e300), good, np.zeros(1), np.zeros(1), np.zeros(1), [{}])


def test_the_first_step_of_plain_observations_is_checked_and_a_dict_is_not_changed() -> None:
    vector = cab.CompressedReplayBuffer(4, spaces.Box(-1, 1, (3,), np.float32), ACTIONS, n_envs=2)
    rest = np.zeros(2), np.zeros(2), np.zeros(2), [{}, {}]
    with pytest.raises(cab.ObservationError, match=r"\(1, 3\)"):
        vector.add(np.zeros((1, 3), np.float32), np.zeros((1, 3), np.float32), *rest)
    assert vector.pos == 0
    numbers = cab.CompressedDictReplayBuffer(4, spaces.Dict({"a": spaces.Discrete(5)}), ACTIONS, n_envs=2)
    for _ in range(6):
        obs = {"a": np.array([1, 4])}
        numbers.add(obs, obs, *rest)
        assert obs["a"].shape == (2,)
    assert set(numbers.sample(50).observations["a"].reshape(-1).tolist()) == {1, 4}


def test_a_device_may_be_a_name() -> None:
    buffer = cab.CompressedReplayBuffer(40, STACKED, ACTIONS, n_envs=2)
    for step in play(STACKED, ACTIONS, 2, 20):
        buffer.add(*step)
    buffer.device = "cpu"  # type: ignore[assignment]  # as some do
    assert buffer.sample(3).observations.device.type == "cpu"


def test_a_key_that_is_changed_between_two_reads_is_another_key() -> None:
    class Earlier(cab.CompressedReplayBuffer):
        def _get_samples(self, batch_inds: Any, env: Any = None) -> Any:
            return super()._get_samples(batch_inds, env)

        def _normalize_obs(self, obs: Any, env: Any = None) -> Any:  # type: ignore[override]  # static in SB3
            self.rows -= 1  # after the next observations were read, and before the observations are
            return obs

    ours, stock = (cls(40, STACKED, ACTIONS) for cls in (Earlier, ReplayBuffer))
    for step in play(STACKED, ACTIONS, 1, 40):
        ours.add(*step)
        stock.add(*step)
    ours.rows = np.arange(10, 20)
    samples = ours._get_samples(ours.rows)
    np.testing.assert_array_equal(samples.next_observations, stock.next_observations[10:20, 0])
    np.testing.assert_array_equal(samples.observations, stock.observations[9:19, 0])


def test_her_goes_on_after_a_reset_as_sb3_does() -> None:
    env = DummyVecEnv([lambda: BitFlippingEnv(n_bits=40, max_steps=9)])
    args = (100, env.observation_space, env.action_space, env)
    stock, ours = HerReplayBuffer(*args), cab.CompressedHerReplayBuffer(*args, codec="delta")
    obs = env.reset()
    for number in range(40):
        action = np.array([number])
        after, reward, done, infos = env.step(action)
        for buffer in (stock, ours):
            buffer.add(dict(obs), dict(after), action, reward, done, infos)
        obs = after
    stock.reset()
    ours.reset()
    assert_same(seeded(0, ours.sample, 30), seeded(0, stock.sample, 30))


def test_long_names_of_keys_are_no_trouble_to_the_logger(capsys: pytest.CaptureFixture[str]) -> None:
    def long(by_key: Any) -> dict[str, Any]:
        return {f"left_wrist_camera_depth_image_normalised_{key}": value for key, value in by_key.items()}

    env = SimpleMultiObsEnv()
    env = TransformObservation(env, long, spaces.Dict(long(env.observation_space.spaces)))
    model = PPO(
        "MultiInputPolicy",
        env,
        n_steps=32,
        batch_size=32,
        n_epochs=1,
        verbose=1,
        rollout_buffer_class=cab.CompressedDictRolloutBuffer,
        device="cpu",
    )
    model.learn(64, callback=cab.BufferStatsCallback())
    assert "stored_mb" in capsys.readouterr().out


def test_one_channel_costs_no_rearranging(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view of channel last memory and its copy differ in the strides of an axis that has but one element."""
    rearranged = []
    arrange = _lanes.Lanes.arrange

    def counting(lanes: Any, strides: Any) -> None:
        if tuple(strides) != tuple(lanes.strides):
            rearranged.append(strides)
        arrange(lanes, strides)

    monkeypatch.setattr(_lanes.Lanes, "arrange", counting)
    space = spaces.Box(0, 255, (1, 36, 36), np.uint8)
    buffer = cab.CompressedReplayBuffer(100, space, ACTIONS, n_envs=2, codec="delta")
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 255, (2, 36, 36, 1), np.uint8).transpose(0, 3, 1, 2)
    for _ in range(20):
        after = rng.integers(0, 255, (2, 36, 36, 1), np.uint8).transpose(0, 3, 1, 2)
        buffer.add(obs, np.ascontiguousarray(after), np.zeros(2), np.zeros(2), np.zeros(2), [{}] * 2)
        np.testing.assert_array_equal(buffer.next_observations[buffer.pos - 1], after)
        obs = after
    assert len(rearranged) <= 1
    assert buffer.sample(5).observations.shape == (5, 1, 36, 36)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="copies whatever __array__ gives")
def test_sb3_does_not_copy_an_observation_on_its_way() -> None:
    space = SPACES["stacked"]
    obs = np.zeros((2, *space.shape), space.dtype)
    assert np.shares_memory(np.array(avoid_copy(checked(obs, space, space.shape, 2), space)), obs)


def test_samples_stay_as_they_are_while_others_are_drawn() -> None:
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    buffer = cab.CompressedReplayBuffer(64, space, spaces.Discrete(3), "cpu")
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 3, (65, 1, *space.shape)).astype(np.uint8)
    for obs, after in pairwise(frames):
        buffer.add(obs, after, np.zeros(1, int), np.zeros(1), np.zeros(1), [{}])
    held: list[tuple[Any, Any]] = []
    for count in range(40):
        obs = buffer.sample(8).observations
        # The tensor, a part of it, a numpy array on it, or a tensor on that.
        part = [obs, obs[3:, 1], obs.numpy()[2:], torch.from_numpy(obs.numpy()[::2])][count % 4]
        held = [*held[-6:], (part, np.asarray(part).copy())]
        del obs, part
        for now, before in held:
            np.testing.assert_array_equal(np.asarray(now), before)
