"""Algorithms with priorities are SB3's where priorities do not count, and do what the formulas say where they do."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sb3_contrib import QRDQN
from sb3_contrib.common.utils import quantile_huber_loss
from stable_baselines3 import DQN
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.utils import set_random_seed
from torch.nn import functional as F  # noqa: N812 - as SB3 calls it

import compressed_array_sb3 as cab
from compressed_array_sb3._weighted_loss import current_training
from compressed_array_sb3.prioritized_dqn import PrioritizedLearning
from sb3_helpers.experience import seeded
from sb3_helpers.training_envs import balls, classic, normalized_balls, stacked_balls

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
PAIRS = {"DQN": (DQN, cab.PrioritizedDQN), "QRDQN": (QRDQN, cab.PrioritizedQRDQN)}
# Buffers are so small that they wrap while they are trained on.
OPTIONS = {"buffer_size": 80, "learning_starts": 30, "batch_size": 8, "train_freq": 2, "target_update_interval": 40}
HERE = OPTIONS | {"policy_kwargs": {"net_arch": [16]}, "seed": 3, "device": "cpu"}
TASKS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "vector": (partial(classic, "CartPole-v1"), "MlpPolicy", {"gradient_steps": 2}),
    "vectors": (partial(balls, "vector", 4), "MlpPolicy", {}),
    "images": (stacked_balls, "CnnPolicy", {}),
    "dict": (partial(balls, ("image", "vector")), "MultiInputPolicy", {}),
    "n-step": (partial(balls, "vector"), "MlpPolicy", {"n_steps": 3}),
    "normalized": (normalized_balls, "MlpPolicy", {"batch_size": 7}),
    "optimized": (partial(balls, "vector"), "MlpPolicy", {"optimize_memory_usage": True}),
}
STEPS = 140
algorithms = pytest.mark.parametrize("name", PAIRS)


def model(algo: Any, task: str = "vector", **changes: Any) -> Any:
    set_random_seed(3)  # before there is an environment: some take random numbers when they are made
    make, policy, options = TASKS[task]
    return algo(policy, make(), **deepcopy(HERE) | options | changes)


def weights(trained: Any) -> list[bytes]:
    assert all(weight.isfinite().all() for weight in trained.policy.state_dict().values())
    return [weight.numpy().tobytes() for weight in trained.policy.state_dict().values()]


@algorithms
@pytest.mark.parametrize("task", [task for task in TASKS if task != "optimized"])
def test_without_alpha_and_beta_training_ends_at_sb3s_weights(name: str, task: str) -> None:
    stock_class, ours_class = PAIRS[name]
    before = weights(model(stock_class, task))
    assert weights(model(ours_class, task, alpha=0, beta=0)) == before
    stock = weights(model(stock_class, task).learn(STEPS))
    assert weights(model(ours_class, task, alpha=0, beta=0).learn(STEPS)) == stock != before


@algorithms
@pytest.mark.parametrize("task", TASKS)
def test_priorities_change_what_is_learned_and_are_learned(name: str, task: str) -> None:
    stock_class, ours_class = PAIRS[name]
    ours = model(ours_class, task).learn(STEPS)
    uniform = model(ours_class, task, alpha=0).learn(STEPS)
    assert weights(ours) != weights(uniform)
    tree = ours.replay_buffer.priorities
    assert 0 < tree.min < tree.max
    assert isinstance(ours, stock_class)


def losses(name: str, trained: Any, samples: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """What the loss of each row should be, and its error, by the formulas."""
    with torch.no_grad():
        after = (trained.q_net_target if name == "DQN" else trained.quantile_net_target)(samples.next_observations)
    if name == "DQN":
        target = samples.rewards + (1 - samples.dones) * trained.gamma * after.max(1, keepdim=True).values
        value = trained.q_net(samples.observations).gather(1, samples.actions.long())
        return F.smooth_l1_loss(value, target, reduction="none")[:, 0], (value - target).abs()[:, 0]
    best = after.mean(1).argmax(1)
    target = samples.rewards + (1 - samples.dones) * trained.gamma * after[torch.arange(len(best)), :, best]
    value = trained.quantile_net(samples.observations)[torch.arange(len(best)), :, samples.actions[:, 0].long()]
    rows = torch.stack([quantile_huber_loss(value[i : i + 1], target[i : i + 1]) for i in range(len(best))])
    return rows, rows


@algorithms
def test_a_step_of_training_is_that_of_the_weighted_loss(name: str) -> None:
    trained = model(PAIRS[name][1], policy_kwargs={"net_arch": [16], "optimizer_class": torch.optim.SGD}, beta=0.7)
    trained.learn(60)
    trained.max_grad_norm = 1e9
    by_hand, buffer = deepcopy(trained.policy), trained.replay_buffer
    buffer.update_priorities(np.arange(60), np.random.default_rng(0).exponential(size=60))
    samples = seeded(5, buffer.sample, 8)
    assert samples.weights.std() > 0.01
    net = "q_net" if name == "DQN" else "quantile_net"
    trained.policy.optimizer.param_groups[0]["lr"] = 0.5
    trained.lr_schedule = lambda _: 0.5
    trained.policy.optimizer.zero_grad()
    rows, errors = losses(name, trained, samples)
    (samples.weights[:, 0] * rows).mean().backward()
    gradients = [parameter.grad.clone() for parameter in getattr(trained.policy, net).parameters()]
    seeded(5, trained.train, gradient_steps=1, batch_size=8)
    trios = zip(getattr(by_hand, net).parameters(), getattr(trained.policy, net).parameters(), gradients, strict=True)
    for before, after, gradient in trios:
        torch.testing.assert_close(after, before - 0.5 * gradient)
    assert any(gradient.abs().max() > 1e-3 for gradient in gradients)
    expected = {int(n): float(e) for n, e in zip(samples.indices, (errors.detach() + 1e-6) ** 0.6, strict=True)}
    places = np.array(list(expected)) % buffer.buffer_size
    np.testing.assert_allclose(buffer.priorities[places], list(expected.values()), rtol=1e-4)


@algorithms
def test_what_is_saved_goes_on_as_if_it_had_not_been(name: str, tmp_path: Path) -> None:
    trained = model(PAIRS[name][1]).learn(100)
    trained.save(tmp_path / "model")
    trained.save_replay_buffer(tmp_path / "buffer")
    loaded = PAIRS[name][1].load(tmp_path / "model", env=trained.env, device="cpu")
    assert loaded.replay_buffer.size() == 0
    assert (loaded.replay_buffer.alpha, loaded.beta(0.5)) == (0.6, 0.7)
    loaded.load_replay_buffer(tmp_path / "buffer")
    places = np.arange(80)
    np.testing.assert_array_equal(loaded.replay_buffer.priorities[places], trained.replay_buffer.priorities[places])
    for one in (trained, loaded):
        one.set_logger(Logger(None, []))
        for _ in range(5):
            seeded(1, one.train, gradient_steps=4, batch_size=8)
    assert weights(loaded) == weights(trained)
    np.testing.assert_array_equal(loaded.replay_buffer.priorities[places], trained.replay_buffer.priorities[places])


def test_beta_goes_by_the_progress_and_is_logged_with_the_rest() -> None:
    seen: list[float] = []
    trained = model(cab.PrioritizedDQN, beta=lambda remaining: seen.append(remaining) or 1 - remaining)
    trained.learn(100, log_interval=None)
    logged = trained.logger.name_to_value
    assert logged["train/beta"] == pytest.approx(1 - trained._current_progress_remaining)
    assert logged["train/max_priority"] == trained.replay_buffer.priorities.max
    assert 0 < logged["train/mean_weight"] < 1
    assert min(seen) == 0
    assert len(set(seen)) > 20


def test_by_default_beta_goes_from_0_4_to_1() -> None:
    made = cab.PrioritizedDQN("MlpPolicy", "CartPole-v1")
    assert [made.beta(remaining) for remaining in (1, 0.5, 0)] == pytest.approx([0.4, 0.7, 1])
    assert made.replay_buffer.beta == pytest.approx(0.4)


def test_the_buffer_is_that_for_the_observations() -> None:
    classes = {task: type(model(cab.PrioritizedDQN, task).replay_buffer) for task in ("images", "dict", "n-step")}
    assert classes == {
        "images": cab.CompressedPrioritizedReplayBuffer,
        "dict": cab.CompressedPrioritizedDictReplayBuffer,
        "n-step": cab.CompressedPrioritizedNStepReplayBuffer,
    }
    both = model(cab.PrioritizedDQN, "dict", n_steps=3)
    assert type(both.replay_buffer) is cab.CompressedPrioritizedDictNStepReplayBuffer
    assert (both.n_steps, both.replay_buffer.n_steps, both.replay_buffer.gamma) == (3, 3, 0.99)


def test_n_steps_are_loaded_without_a_warning(tmp_path: Path) -> None:
    model(cab.PrioritizedDQN, "n-step").save(tmp_path / "model")
    assert cab.PrioritizedDQN.load(tmp_path / "model", device="cpu").replay_buffer.n_steps == 3
    with pytest.warns(UserWarning, match="n_steps=3"):  # SB3's own, which is right here
        model(cab.PrioritizedDQN, "n-step", replay_buffer_class=cab.CompressedPrioritizedNStepReplayBuffer, n_steps=3)


def test_other_buffers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(cab.BufferClassError, match="Prioritized in its name"):
        model(cab.PrioritizedDQN, replay_buffer_class=cab.CompressedReplayBuffer)
    stock = model(DQN).learn(60)
    stock.save_replay_buffer(tmp_path / "stock")
    trained = model(cab.PrioritizedDQN)
    trained.load_replay_buffer(tmp_path / "stock")
    with pytest.raises(cab.BufferClassError, match="load_replay_buffer"):
        trained.learn(60)
    cab.load_replay_buffer(trained, tmp_path / "stock")
    assert trained.replay_buffer.priorities.total == stock.replay_buffer.size()
    trained.learn(60)


def test_the_compressed_buffer_of_a_file_becomes_one_with_priorities(tmp_path: Path) -> None:
    plain = model(DQN, replay_buffer_class=cab.CompressedReplayBuffer).learn(60)
    plain.save_replay_buffer(tmp_path / "plain")
    trained = model(cab.PrioritizedDQN, alpha=0.9)
    trained.load_replay_buffer(tmp_path / "plain")
    with pytest.raises(cab.BufferClassError, match="load_replay_buffer"):
        trained.learn(60)
    cab.load_replay_buffer(trained, tmp_path / "plain")
    assert trained.replay_buffer.priorities.total == plain.replay_buffer.size()
    assert trained.replay_buffer.alpha == 0.9
    trained.learn(60)


def test_a_model_without_its_buffer_loads(tmp_path: Path) -> None:
    model(cab.PrioritizedDQN).save(tmp_path / "model")
    loaded = cab.PrioritizedDQN.load(tmp_path / "model", custom_objects={"replay_buffer_class": cab.DummyCls})
    assert loaded.predict(np.zeros(4, np.float32), deterministic=True)[0] in (0, 1)


class Otherwise(DQN):
    """What a version of SB3 might come to be: its train does `way` with a batch."""

    way: Any

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            value = self.q_net(batch.observations).gather(1, batch.actions.long())
            loss = type(self).way(value, batch.rewards)
            self.policy.optimizer.zero_grad()
            loss.backward()
            self.policy.optimizer.step()


WRONG = {
    "no loss of the target": lambda value, target: value.mean(),
    "a sum": lambda value, target: (value - target).pow(2).sum(),
    "a mean of a part": lambda value, target: (value - target)[:3].pow(2).mean(),
    "a loss that is summed": lambda value, target: F.mse_loss(value, target, reduction="sum"),
    "two losses": lambda value, target: F.mse_loss(value, target) + F.mse_loss(value, target),
    "among others": lambda value, target: torch.cat([target, value]).mean(),
}
RIGHT = {
    "another loss": lambda value, target: F.mse_loss(value, target),
    "the other way round": lambda value, target: F.mse_loss(target, value),
    "written out": lambda value, target: (value - target).pow(2).mean(),
    "by torch": lambda value, target: torch.mean((value - target) ** 2),
}


@pytest.mark.parametrize("way", WRONG)
def test_a_train_that_is_not_understood_is_refused(way: str) -> None:
    class Prioritized(PrioritizedLearning, Otherwise):
        pass

    Prioritized.way = staticmethod(WRONG[way])
    with pytest.raises(cab.UnweightedLossError, match=r"multiply by samples\.weights"):
        model(Prioritized).learn(60)


@pytest.mark.parametrize("way", RIGHT)
def test_a_train_that_takes_the_mean_of_rows_is_understood(way: str) -> None:
    class Prioritized(PrioritizedLearning, Otherwise):
        pass

    Prioritized.way = staticmethod(RIGHT[way])
    tree = model(Prioritized).learn(60).replay_buffer.priorities
    assert 0 < tree.min < tree.max


def test_outside_of_train_samples_are_plain() -> None:
    trained = model(cab.PrioritizedDQN)
    inside: list[Any] = []

    class Watching(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inside.append(current_training(trained.replay_buffer))
            return x

    trained.q_net.q_net.append(Watching())
    trained.learn(60)
    assert any(lesson is not None for lesson in inside)
    assert current_training(trained.replay_buffer) is None
    assert type(trained.replay_buffer.sample(4).rewards) is torch.Tensor


def test_the_example_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples/train_prioritized.py"), "--smoke"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "uniform" in done.stdout


def test_a_schedule_of_ones_own_is_not_pickled_with_the_buffer(tmp_path: Path) -> None:
    model = cab.PrioritizedDQN(
        "MlpPolicy", "CartPole-v1", beta=lambda progress: 1 - progress, learning_starts=10, seed=0
    )
    model.learn(40)
    model.save_replay_buffer(tmp_path / "buffer.pkl")
    model.save(tmp_path / "model.zip")
    again = cab.PrioritizedDQN.load(tmp_path / "model.zip", env=model.get_env())
    again.load_replay_buffer(tmp_path / "buffer.pkl")
    again.learn(20, reset_num_timesteps=False)
    assert again.replay_buffer.beta == pytest.approx(again.beta(again._current_progress_remaining))


def test_options_can_be_told_anew_when_a_model_is_loaded(tmp_path: Path) -> None:
    model = cab.PrioritizedDQN("MlpPolicy", "CartPole-v1", alpha=0.6, replay_buffer_kwargs={"epsilon": 0.5})
    model.save(tmp_path / "model.zip")
    again = cab.PrioritizedDQN.load(tmp_path / "model.zip", env=model.get_env(), alpha=0.9)
    assert (again.replay_buffer.alpha, again.replay_buffer.epsilon) == (0.9, 0.5)


@pytest.mark.parametrize("way", ["kwargs", "custom_objects"])
def test_options_of_the_buffer_can_be_told_anew_when_a_model_is_loaded(way: str, tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    model(cab.PrioritizedDQN, beta=lambda left: 1 - left).save(path)

    def loaded(options: dict[str, Any], **more: Any) -> Any:
        told = {"replay_buffer_kwargs": options}
        return cab.PrioritizedDQN.load(path, device="cpu", **(told if way == "kwargs" else {way: told}), **more)

    again = loaded({"alpha": 0.9, "epsilon": 0.5, "beta": 0.1, "codec": "delta"})
    assert (again.alpha, again.epsilon, again.beta) == (0.9, 0.5, 0.1)
    buffer = again.replay_buffer
    assert (buffer.alpha, buffer.epsilon, buffer.beta, buffer.codec) == (0.9, 0.5, 0.1, "delta")
    kept = loaded({"codec": "delta"}, alpha=None, epsilon=0.5)
    assert (kept.alpha, kept.epsilon, kept.beta(0.25), kept.replay_buffer.codec) == (0.6, 0.5, 0.75, "delta")
    with pytest.raises(cab.BufferOptionError, match=r"alpha .*replay_buffer_kwargs"):
        loaded({"alpha": 0.9}, alpha=0.9)


def test_a_stock_model_becomes_a_prioritized_one(tmp_path: Path) -> None:
    stock = model(DQN).learn(60)
    stock.save(tmp_path / "model")
    with pytest.raises(cab.BufferClassError, match="replay_buffer_class=None"):
        cab.PrioritizedDQN.load(tmp_path / "model", env=stock.env, device="cpu")
    trained = cab.PrioritizedDQN.load(tmp_path / "model", env=stock.env, device="cpu", replay_buffer_class=None)
    assert weights(trained) == weights(stock)
    trained.learn(60)
    assert type(trained.replay_buffer) is cab.CompressedPrioritizedReplayBuffer


@pytest.mark.parametrize("path", ["load_replay_buffer", "cab.load_replay_buffer"])
def test_options_that_are_told_anew_hold_for_a_loaded_buffer(path: str, tmp_path: Path) -> None:
    trained = model(cab.PrioritizedDQN).learn(100)
    trained.save(tmp_path / "model")
    trained.save_replay_buffer(tmp_path / "buffer")
    loaded = cab.PrioritizedDQN.load(tmp_path / "model", env=trained.env, device="cpu", alpha=0.9, epsilon=0.1)
    if path == "load_replay_buffer":
        loaded.load_replay_buffer(tmp_path / "buffer")
    else:
        cab.load_replay_buffer(loaded, tmp_path / "buffer")
    buffer = loaded.replay_buffer
    assert (buffer.alpha, buffer.epsilon) == (loaded.alpha, loaded.epsilon) == (0.9, 0.1)
    errors = trained.replay_buffer.priorities[np.arange(80)] ** (1 / 0.6) - 1e-6
    np.testing.assert_allclose(buffer.priorities[np.arange(80)], (errors + 0.1) ** 0.9, rtol=1e-6)
    loaded.learn(20, reset_num_timesteps=False)


def test_a_schedule_ends_at_zero_where_steps_go_beyond_the_end() -> None:
    trained = cab.PrioritizedDQN("MlpPolicy", "CartPole-v1", beta=lambda left: left, train_freq=4, learning_starts=10)
    trained.learn(99)
    assert trained._current_progress_remaining < 0
    assert trained.replay_buffer.beta == 0


def test_a_schedule_that_falls_below_zero_says_when() -> None:
    trained = model(cab.PrioritizedDQN, beta=lambda left: left - 0.5)
    with pytest.raises(cab.BufferOptionError, match=r"with 0\.4\d* of the training to go it is -0\.0"):
        trained.learn(100)


def test_an_option_is_given_once() -> None:
    for name, value in {"alpha": 0.6, "beta": 0.4, "epsilon": 1e-6}.items():
        with pytest.raises(cab.BufferOptionError, match=f"{name} .*replay_buffer_kwargs"):
            model(cab.PrioritizedDQN, replay_buffer_kwargs={name: value}, **{name: value})
    made = model(cab.PrioritizedDQN, replay_buffer_kwargs={"alpha": 0.9}, epsilon=0.5)
    assert (made.alpha, made.epsilon, made.replay_buffer.alpha) == (0.9, 0.5, 0.9)
