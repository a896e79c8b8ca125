"""What plays, and what is told of it. The oracles are SB3's own: its training loop, its `evaluate_policy`."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN, TD3
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer, RolloutBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecEnv,
    VecEnvWrapper,
    VecMonitor,
    VecNormalize,
)
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from compressed_array_sb3 import (
    CompressedDictReplayBuffer,
    CompressedHerReplayBuffer,
    CompressedNStepReplayBuffer,
    CompressedReplayBuffer,
    CompressedRolloutBuffer,
)
from compressed_array_sb3.training_utils.atari import make_env
from compressed_array_sb3.training_utils.buffer_warmup import warm_up
from compressed_array_sb3.training_utils.eval_model import eval_model, report

pytestmark = pytest.mark.long

PACMAN = "MsPacmanNoFrameskip-v4"


class Counting(gym.Env[Any, Any]):
    """Observations say which environment, episode and step they are of. Every third episode is cut by a time limit."""

    def __init__(self, index: int = 0, kind: str = "plain", box_actions: bool = False) -> None:
        self.index, self.kind, self.episode, self.steps = index, kind, -1, 0
        vector = spaces.Box(-1000, 1000, (3,), np.float32)
        goal = spaces.Box(-1000, 1000, (1,), np.float32)
        self.observation_space = {
            "plain": vector,
            "dict": spaces.Dict({"all": vector, "step": goal}),
            "goal": spaces.Dict({"observation": vector, "achieved_goal": goal, "desired_goal": goal}),
        }[kind]
        low, high = np.array([-1, 2], np.float32), np.array([3, 10], np.float32)
        self.action_space = spaces.Box(low, high) if box_actions else spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.episode, self.steps = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        over, cut = self.steps == episode_length(self.index, self.episode), self.episode % 3 == 2
        return self._obs(), reward_of(self.episode, self.steps), over and not cut, over and cut, {}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return (achieved == desired).all(axis=-1).astype(np.float32)

    def _obs(self) -> Any:
        vector = np.array([self.index, self.episode, self.steps], np.float32)
        if self.kind == "dict":
            return {"all": vector, "step": vector[2:]}
        if self.kind == "goal":
            return {"observation": vector, "achieved_goal": vector[1:2], "desired_goal": np.array([-1], np.float32)}
        return vector


def episode_length(index: int, episode: int) -> int:
    return 3 + (2 * index + episode) % 4


def reward_of(episode: int, step: int) -> float:
    return 0.5 * step + episode


def counting(n_envs: int = 2, **kwargs: Any) -> VecEnv:
    return DummyVecEnv([partial(Counting, i, **kwargs) for i in range(n_envs)])


def stock_of(env: VecEnv, size: int = 400, **kwargs: Any) -> ReplayBuffer:
    kind = DictReplayBuffer if isinstance(env.observation_space, spaces.Dict) else ReplayBuffer
    return kind(size, env.observation_space, env.action_space, n_envs=env.num_envs, device="cpu", **kwargs)


def compressed_of(env: VecEnv, size: int = 400, **kwargs: Any) -> ReplayBuffer:
    kind = CompressedDictReplayBuffer if isinstance(env.observation_space, spaces.Dict) else CompressedReplayBuffer
    return kind(size, env.observation_space, env.action_space, n_envs=env.num_envs, device="cpu", **kwargs)


def assert_same(ours: ReplayBuffer, theirs: ReplayBuffer) -> None:
    assert (ours.pos, ours.full, ours.buffer_size) == (theirs.pos, theirs.full, theirs.buffer_size)
    for name in ("actions", "rewards", "dones", "timeouts"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    rows = np.arange(theirs.size())  # an array of rows, since that is read as a plain ndarray
    for name in ("observations", "next_observations"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        for key in other if isinstance(other, dict) else [None]:
            part, expected = (mine, other) if key is None else (mine[key], other[key])
            np.testing.assert_array_equal(part[rows], expected[rows], err_msg=name)


class Watched(VecEnvWrapper):
    """Keeps what comes out of an environment, and whether it was closed."""

    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        self.dones: list[Any] = []
        self.infos: list[Any] = []
        self.closed = False

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        out = self.venv.step_wait()
        self.dones.append(out[2].copy())
        self.infos.append(out[3])
        return out

    def close(self) -> None:
        self.closed = True
        super().close()


# What is stored


@pytest.mark.parametrize("kind", ["plain", "dict"])
def test_last_observations_and_dones_are_those_of_the_episode(kind: str) -> None:
    env = counting(2, kind=kind)
    stock, ours = stock_of(env), compressed_of(env)
    eval_model(9, env, None, buffer=[stock, ours])
    assert_same(ours, stock)
    key = "all" if kind == "dict" else ...
    before, after = np.asarray(stock.observations[key]), np.asarray(stock.next_observations[key])
    for index in range(2):
        episode, step = 0, 0
        for row in range(stock.pos):
            over = step + 1 == episode_length(index, episode)
            np.testing.assert_array_equal(before[row, index], [index, episode, step])
            np.testing.assert_array_equal(after[row, index], [index, episode, step + 1])
            assert stock.rewards[row, index] == reward_of(episode, step + 1)
            assert stock.dones[row, index] == over
            assert stock.timeouts[row, index] == (over and episode % 3 == 2)
            episode, step = (episode + 1, 0) if over else (episode, step + 1)
        assert episode >= 4


def train(algorithm: Any, env: VecEnv, seed: int, size: int) -> ReplayBuffer:
    """What SB3 stores while it plays at random, before it learns."""
    policy = "MultiInputPolicy" if isinstance(env.observation_space, spaces.Dict) else "MlpPolicy"
    model = algorithm(policy, env, seed=seed, learning_starts=10**9, buffer_size=size, device="cpu")
    model.learn(size)
    assert model.replay_buffer.full
    return model.replay_buffer  # type: ignore[no-any-return]  # of an algorithm that is Any


@pytest.mark.parametrize(
    ("algorithm", "make"),
    [
        (DQN, counting),
        (DQN, partial(counting, kind="dict")),
        (DQN, lambda: VecNormalize(counting(), clip_obs=5)),
        (DQN, lambda: VecNormalize(counting(kind="dict"))),
        (DQN, lambda: make_vec_env("CartPole-v1", 2)),
        (TD3, partial(counting, box_actions=True)),
    ],
    ids=["plain", "dict", "normalized", "normalized-dict", "cartpole", "continuous"],
)
def test_stored_as_training_stores_it(algorithm: Any, make: Callable[[], VecEnv]) -> None:
    env = make()
    env.seed(5)
    env.action_space.seed(5)
    stock, ours = stock_of(env, 120), compressed_of(env, 120)
    warm_up([stock, ours], 2, env, None)
    theirs = train(algorithm, make(), seed=5, size=120)
    assert_same(stock, theirs)
    assert_same(ours, theirs)
    assert theirs.dones.any()


def test_lost_lives_are_dones_and_no_episodes() -> None:
    env = Watched(make_env(PACMAN, 2, DummyVecEnv, seed=1))
    env.action_space.seed(1)
    stock, ours = stock_of(env, 2000), compressed_of(env, 2000)
    returns, seconds = eval_model(2, env, None, buffer=(stock, ours))
    assert_same(ours, stock)
    dones = np.array(env.dones)
    over = np.array([["episode" in info for info in infos] for infos in env.infos])
    assert (dones & ~over).any()
    np.testing.assert_array_equal(stock.dones[: stock.pos], dones)
    for row, column in zip(*np.nonzero(dones), strict=True):
        last = env.infos[row][column]["terminal_observation"]
        np.testing.assert_array_equal(stock.next_observations[row, column], last)
        assert not np.array_equal(stock.observations[(row + 1) % stock.pos, column], last)
    first = {i: next(infos[i]["episode"]["r"] for infos in env.infos if "episode" in infos[i]) for i in range(2)}
    assert sorted(returns) == sorted(first.values())
    assert max(returns) > 100  # rewards are clipped to 1, scores are not
    assert len(seconds) == 2
    assert min(seconds) > 0


def test_atari_is_stored_as_training_stores_it() -> None:
    env = make_env(PACMAN, 1, seed=3, framestack=2)
    env.action_space.seed(3)
    ours = compressed_of(env, 400)
    warm_up(ours, 1, env, None)
    theirs_env = make_env(PACMAN, 1, seed=3, framestack=2)
    model = DQN("CnnPolicy", theirs_env, seed=3, learning_starts=10**9, buffer_size=400, device="cpu")
    model.learn(400)
    assert model.replay_buffer is not None
    assert_same(ours, model.replay_buffer)
    assert ours.dones.any()


@pytest.mark.parametrize("kind", [NStepReplayBuffer, CompressedNStepReplayBuffer])
def test_n_step_returns_do_not_run_from_one_evaluation_into_the_next(kind: Any) -> None:
    env = counting(3)
    buffer = kind(300, env.observation_space, env.action_space, n_envs=3, device="cpu", n_steps=3)
    for _ in range(4):
        eval_model(1, env, None, close_env=False, buffer=buffer)
    samples = buffer.sample(2000)
    np.testing.assert_array_equal(samples.observations[:, :2], samples.next_observations[:, :2])
    assert samples.dones.any()


@pytest.mark.parametrize("kind", [HerReplayBuffer, CompressedHerReplayBuffer])
def test_goals_do_not_come_from_another_evaluation(kind: Any) -> None:
    env = counting(3, kind="goal")
    buffer = kind(300, env.observation_space, env.action_space, env, n_envs=3, device="cpu")
    for _ in range(4):
        eval_model(1, env, None, close_env=False, buffer=buffer)
    samples = buffer.sample(2000)
    goals, episodes = samples.observations["desired_goal"][:, 0], samples.observations["observation"][:, 1]
    assert ((goals == -1) | (goals == episodes)).all()
    assert (goals == episodes).any()


# Returns


@pytest.mark.parametrize("monitor", [None, Monitor, VecMonitor])
@pytest.mark.parametrize("n_eps", [1, 7])
def test_returns_are_those_of_evaluate_policy(monitor: Any, n_eps: int) -> None:
    def make() -> VecEnv:
        one = make_monitored if monitor is Monitor else gym.make
        env = DummyVecEnv([partial(one, "CartPole-v1") for _ in range(3)])
        env.seed(2)
        return VecMonitor(env) if monitor is VecMonitor else env

    returns, seconds = eval_model(n_eps, make(), Lean(), buffer=None)
    expected, _ = evaluate_policy(Lean(), make(), n_eps, return_episode_rewards=True, warn=False)
    assert returns == pytest.approx(expected)
    assert len(returns) == n_eps
    assert seconds == []


class Lean:
    """Balances a pole for a while."""

    def predict(
        self, obs: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, None]:
        return (obs[:, 2] > 0).astype(int), None


def make_monitored(env_id: str) -> gym.Env[Any, Any]:
    return Monitor(gym.make(env_id))


def test_original_rewards_are_summed() -> None:
    env = VecNormalize(counting(1))
    returns, _ = eval_model(3, env, None)
    expected = [sum(reward_of(e, s + 1) for s in range(episode_length(0, e))) for e in range(3)]
    assert returns == expected


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_model_needs_nothing_but_predict(deterministic: bool) -> None:
    class Twos:
        def predict(self, obs: Any, deterministic: bool) -> tuple[Any, None]:
            asked.append(deterministic)
            return np.full(len(obs), 2), None

    asked: list[bool] = []
    env = counting(2)
    buffer = compressed_of(env)
    eval_model(2, env, Twos(), buffer=buffer, deterministic=deterministic)
    assert (buffer.actions[: buffer.pos] == 2).all()
    assert asked == [deterministic] * buffer.pos


def test_a_model_that_remembers_is_reminded() -> None:
    class Clock:
        """Acts by the number of steps since the start of an episode, which only its state knows."""

        def predict(
            self, obs: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
        ) -> tuple[Any, Any]:
            steps = np.zeros(len(obs), int) if state is None else np.where(episode_start, 0, state[0])
            return steps % 5, (steps + 1,)

    env = counting(2)
    buffer = compressed_of(env)
    eval_model(6, env, Clock(), buffer=buffer)
    steps = buffer.observations[np.arange(buffer.pos)][..., 2]
    np.testing.assert_array_equal(buffer.actions[: buffer.pos, :, 0], steps % 5)


@pytest.mark.parametrize("close", [True, False])
def test_closing(close: bool) -> None:
    env = Watched(counting(1))
    eval_model(1, env, None, close)
    assert env.closed == close
    env = Watched(counting(1))
    warm_up(stock_of(env, 5), 1, env, None, close_env=close)
    assert env.closed == close


def test_an_environment_is_closed_when_a_model_fails() -> None:
    class Broken:
        def predict(self, obs: Any, deterministic: bool) -> tuple[Any, None]:
            raise RuntimeError("broken")

    env = Watched(counting(1))
    with pytest.raises(RuntimeError, match="broken"):
        eval_model(1, env, Broken())
    assert env.closed


# Filling a buffer


def test_warm_up_fills_all_buffers() -> None:
    env = counting(2)
    small, large = stock_of(env, 50), compressed_of(env, 121)
    returns, seconds = warm_up([small, large], 2, env, None)
    assert small.full
    assert (large.full, large.pos) == (True, 0)
    assert large.buffer_size == 60
    assert len(returns) == large.dones.sum()
    assert len(seconds) == 2


def test_warm_up_by_the_length_of_an_episode() -> None:
    env = counting(2)
    buffer = compressed_of(env, 100)
    returns, _ = warm_up(buffer, 2, env, None, mean_ep_len=4.5)
    assert len(returns) == 23
    assert buffer.full


def test_warm_up_by_episodes() -> None:
    env = counting(2)
    buffer = compressed_of(env, 400)
    returns, _ = warm_up(buffer, 2, env, None, warmup_episodes=4, mean_ep_len=1)
    assert len(returns) == 4
    assert not buffer.full
    assert buffer.dones[:, 0].sum() >= 2
    assert buffer.dones[:, 1].sum() >= 2


def test_training_goes_on_from_a_warm_buffer() -> None:
    env = make_vec_env("CartPole-v1", 2)
    model = DQN("MlpPolicy", env, replay_buffer_class=CompressedReplayBuffer, learning_starts=0, device="cpu", seed=0)
    assert model.replay_buffer is not None
    before = model.policy.parameters_to_vector()
    warm_up(model.replay_buffer, 2, make_vec_env("CartPole-v1", 2, seed=0), model, warmup_episodes=3)
    warm = model.replay_buffer.pos
    model.learn(40)
    assert model.replay_buffer.pos == warm + 20
    assert not np.array_equal(before, model.policy.parameters_to_vector())


# What is refused


@pytest.mark.parametrize("kind", [RolloutBuffer, CompressedRolloutBuffer])
def test_rollouts_are_refused(kind: Any) -> None:
    env = Watched(counting(1))
    buffer = kind(10, env.observation_space, env.action_space)
    for given in (buffer, [stock_of(env), buffer]):
        with pytest.raises(TypeError, match=rf"{kind.__name__} .*ReplayBuffer"):
            eval_model(1, env, None, buffer=given)
        with pytest.raises(TypeError, match=rf"{kind.__name__} .*ReplayBuffer"):
            warm_up(given, 1, env, None)
    assert not env.closed
    assert not env.dones


def test_numbers_that_do_not_fit_are_refused() -> None:
    env, other = counting(2), counting(3)
    with pytest.raises(ValueError, match=r"n_envs=3 .* 2 environments"):
        eval_model(1, env, None, buffer=stock_of(other))
    with pytest.raises(ValueError, match=r"n_envs=3.* 2 environments"):
        warm_up(stock_of(other), 3, env, None)
    with pytest.raises(ValueError, match="0 episodes"):
        eval_model(0, env, None)
    with pytest.raises(ValueError, match="0 episodes"):
        warm_up(stock_of(env), 2, env, None, warmup_episodes=0)
    with pytest.raises(ValueError, match="0 steps"):
        warm_up(stock_of(env), 2, env, None, mean_ep_len=0)
    with pytest.raises(ValueError, match="no buffer"):
        warm_up([], 2, env, None)


# The bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("missing", "shown"), [((), True), (("tqdm.rich",), True), (("rich.console",), True), (("tqdm",), False)]
)
def test_a_bar_on_a_terminal(
    missing: tuple[str, ...], shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    eval_model(4, counting(2), None)
    assert ("4 episodes" in terminal.getvalue()) == shown
    assert ("4/4" in terminal.getvalue()) == shown
    env = counting(2)
    warm_up(stock_of(env, 20), 2, env, None)
    assert ("10 steps" in terminal.getvalue()) == shown
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("wanted", [True, False])
def test_no_bar_without_a_terminal_or_when_not_wanted(
    wanted: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO() if wanted else Terminal())
    eval_model(2, counting(2), None, progress_bar=wanted)
    assert stream.getvalue() == capsys.readouterr().out == ""


# The report


def test_report_is_the_published_text() -> None:
    assert report([20.0] + [21.0] * 9999) == (
        "Evaluated 10000 episodes, mean reward: 21.0 +/- 0.01\n"
        "Q1:   21 | Q2:   21 | Q3:   21 | Relative IQR: 0.00 | Min: 20 | Max: 21"
    )
    assert report([2460, 2490, 4020, 4020, 4020]) == (
        "Evaluated 5 episodes, mean reward: 3402.0 +/- 756.95\n"
        "Q1: 2490 | Q2: 4020 | Q3: 4020 | Relative IQR: 0.38 | Min: 2460 | Max: 4020"
    )


def test_report_of_nothing_to_divide_by() -> None:
    assert report([-1, 0, 1]).endswith("Q1:    0 | Q2:    0 | Q3:    0 | Relative IQR: nan | Min: -1 | Max: 1")
    with pytest.raises(ValueError, match="no episodes"):
        report([])


# Atari


def play(env: VecEnv, steps: int) -> list[Any]:
    stream = [env.reset()]
    for i in range(steps):
        obs, rewards, dones, infos = env.step(np.full(env.num_envs, i // 7 % env.action_space.n))
        stream += [obs, rewards, dones, [info.get("terminal_observation") for info in infos]]
    env.close()
    return stream


def test_seeds_decide_the_stream_in_whatever_process() -> None:
    here, there, other = (
        play(make_env(PACMAN, 2, cls, seed=seed, max_num_frames_per_episode=160), 60)
        for cls, seed in ((DummyVecEnv, 7), (SubprocVecEnv, 7), (DummyVecEnv, 8))
    )
    for mine, theirs in zip(here, there, strict=True):
        np.testing.assert_equal(mine, theirs)
    assert any(dones.any() for dones in here[3::4])
    assert not all(np.array_equal(mine, theirs) for mine, theirs in zip(here[1::4], other[1::4], strict=True))


@pytest.mark.parametrize(("framestack", "channels"), [(None, 1), (1, 1), (4, 4)])
def test_observations_of_games(framestack: int | None, channels: int) -> None:
    env = make_env("PongNoFrameskip-v4", 1, SubprocVecEnv, framestack=framestack)
    assert env.observation_space == spaces.Box(0, 255, (channels, 84, 84), np.uint8)
    assert env.reset().shape == (1, channels, 84, 84)
    assert isinstance(env.unwrapped, DummyVecEnv)
    env.close()


def test_options_of_games() -> None:
    env = make_env("ALE/Pong-v5", 1, frameskip=1, full_action_space=True)
    assert env.action_space == spaces.Discrete(18)
    env.close()


def test_a_game_that_does_not_exist_is_named() -> None:
    with pytest.raises(gym.error.NameNotFound, match="MsPackman"):
        make_env("MsPackmanNoFrameskip-v4", 2)


def test_what_atari_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(ImportError, match=r"pip install 'compressed-array-sb3\[atari\]'"):
        make_env("PongNoFrameskip-v4", 1)


def test_atari_is_imported_when_it_is_played() -> None:
    modules = ", ".join(
        f"compressed_array_sb3.training_utils.{name}" for name in ("atari", "eval_model", "buffer_warmup")
    )
    code = f"import sys, {modules}; sys.exit('ale_py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
