"""Prioritized buffers draw what their priorities say, and hand out what SB3's own buffers hold there."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer

import compressed_array_sb3 as cab
from compressed_array.errors import PriorityError
from compressed_array_sb3._chosen_envs import per_step_fields
from compressed_array_sb3.gpu_buffers import GpuReplayBuffer
from core_helpers.interruptions import SOURCES, Interruption
from sb3_helpers.experience import DICT, SPACES, assert_same, play, seeded

ACTIONS = spaces.Discrete(6)
VECTOR, STACKED = SPACES["vector"], SPACES["stacked"]
KINDS: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "vector": (cab.CompressedPrioritizedReplayBuffer, ReplayBuffer, VECTOR, {}),
    "stacked": (cab.CompressedPrioritizedReplayBuffer, ReplayBuffer, STACKED, {}),
    "discrete": (cab.CompressedPrioritizedReplayBuffer, ReplayBuffer, SPACES["discrete"], {}),
    "dict": (cab.CompressedPrioritizedDictReplayBuffer, DictReplayBuffer, DICT, {}),
    "n-step vector": (cab.CompressedPrioritizedNStepReplayBuffer, NStepReplayBuffer, VECTOR, {"n_steps": 3}),
    "n-step": (cab.CompressedPrioritizedNStepReplayBuffer, NStepReplayBuffer, STACKED, {"n_steps": 3, "gamma": 0.9}),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
with_envs = pytest.mark.parametrize("n_envs", [1, 4])


def filled(buffer: Any, space: Any, steps: int, seed: int = 0) -> Any:
    for step in play(space, ACTIONS, buffer.n_envs, steps, seed):
        buffer.add(*step)
    return buffer


def vectors(rows: int = 20, n_envs: int = 1, steps: int | None = None, **options: Any) -> Any:
    """A buffer of vectors, filled."""
    made = cab.CompressedPrioritizedReplayBuffer(rows * n_envs, VECTOR, ACTIONS, "cpu", n_envs, **options)
    return filled(made, VECTOR, rows if steps is None else steps)


def numbers_of(buffer: Any) -> np.ndarray:
    """The numbers of all transitions that it holds, by place."""
    count = buffer.size() * buffer.n_envs
    saved, buffer.alpha = buffer.alpha, 0
    found = np.full(count, -1)
    while (found < 0).any():
        drawn = buffer.sample(200).indices
        found[drawn % (buffer.buffer_size * buffer.n_envs)] = drawn
    buffer.alpha = saved
    return found


def at(stock: Any, rows: np.ndarray, envs: np.ndarray) -> list[Any]:
    """What SB3's buffer gives for transitions one by one, each as if it had that environment alone."""
    found = []
    whole = dict(vars(stock))
    for row, env in zip(rows, envs, strict=True):
        for name, value in whole.items():
            if isinstance(value, dict) and name.endswith("observations"):
                vars(stock)[name] = {key: part[:, env : env + 1] for key, part in value.items()}
            elif isinstance(value, np.ndarray):
                vars(stock)[name] = value[:, env : env + 1].copy()
        stock.n_envs = 1
        found.append(stock._get_samples(np.array([row])))
        vars(stock).update(whole)
    return found


def row_of(part: Any, i: int) -> Any:
    if isinstance(part, dict):
        return {key: value[i : i + 1] for key, value in part.items()}
    return None if part is None else part[i : i + 1]


@every_kind
@with_envs
def test_without_alpha_samples_are_sb3s(kind: str, n_envs: int) -> None:
    ours_class, stock_class, space, options = KINDS[kind]
    args = (50 * n_envs, space, ACTIONS, "cpu", n_envs)
    stock, ours = stock_class(*args, **options), ours_class(*args, **options, alpha=0)
    for number, step in enumerate(play(space, ACTIONS, n_envs, 130)):
        stock.add(*step)
        ours.add(*step)
        if number % 7 == 0:
            for batch in (1, 33):
                theirs = seeded(number, stock.sample, batch)
                next_number = np.random.random()  # noqa: NPY002 - of SB3's generator
                mine = seeded(number, ours.sample, batch)
                assert np.random.random() == next_number  # noqa: NPY002 - likewise
                assert_same(type(theirs)(*mine[:-2]), theirs)
                assert_same(mine.weights, torch.ones(batch, 1))
                ours.update_priorities(mine.indices, torch.randn(batch, 1))  # of which nothing follows


@every_kind
@with_envs
@pytest.mark.parametrize("steps", [30, 130])
def test_a_sample_is_what_sb3_holds_at_its_indices(kind: str, n_envs: int, steps: int) -> None:
    ours_class, stock_class, space, options = KINDS[kind]
    args = (50 * n_envs, space, ACTIONS, "cpu", n_envs)
    stock = filled(stock_class(*args, **options), space, steps)
    ours = filled(ours_class(*args, **options), space, steps)
    for _ in range(3):
        samples = ours.sample(40)
        assert isinstance(samples, cab.PrioritizedReplayBufferSamples)
        rows, envs = np.divmod(samples.indices % (50 * n_envs), n_envs)
        for i, theirs in enumerate(at(stock, rows, envs)):
            assert_same(type(theirs)(*(row_of(part, i) for part in samples[:-2])), theirs)
        ours.update_priorities(samples.indices, np.random.default_rng(0).exponential(size=40))


@with_envs
def test_n_step_of_a_dict_is_that_of_each_key(n_envs: int) -> None:
    options = {"n_steps": 3, "gamma": 0.9}
    ours = cab.CompressedPrioritizedDictNStepReplayBuffer(50 * n_envs, DICT, ACTIONS, "cpu", n_envs, **options)
    keys = {key: NStepReplayBuffer(50 * n_envs, DICT[key], ACTIONS, "cpu", n_envs, **options) for key in DICT}
    for step in play(DICT, ACTIONS, n_envs, 130):
        ours.add(*step)
        for key, stock in keys.items():
            stock.add(step.obs[key], step.next_obs[key], *step[2:])
    samples = ours.sample(40)
    rows, envs = np.divmod(samples.indices % (50 * n_envs), n_envs)
    for key, stock in keys.items():
        for i, theirs in enumerate(at(stock, rows, envs)):
            assert_same(samples.observations[key][i : i + 1], theirs.observations)
            assert_same(samples.next_observations[key][i : i + 1], theirs.next_observations)
            assert_same(tuple(row_of(part, i) for part in samples[3:6]), tuple(theirs[3:6]))


def misfit(counts: np.ndarray, shares: np.ndarray) -> float:
    """By how many deviations the chi-square statistic exceeds what is to be expected."""
    expected = shares / shares.sum() * counts.sum()
    assert expected.min() > 5
    chi_square, freedom = ((counts - expected) ** 2 / expected).sum(), len(counts) - 1
    return (chi_square - freedom) / np.sqrt(2 * freedom)


@with_envs
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_draws_are_in_proportion_to_priorities(alpha: float, n_envs: int) -> None:
    buffer = vectors(24, n_envs, 40, alpha=alpha, epsilon=0.1)
    errors = np.random.default_rng(1).exponential(size=24 * n_envs)
    numbers = numbers_of(buffer)
    buffer.update_priorities(numbers, errors)
    drawn = np.concatenate([seeded(i, buffer.sample, 32).indices for i in range(800)])
    counts = np.bincount(drawn % len(errors), minlength=len(errors))
    assert misfit(counts, (errors + 0.1) ** alpha) < 4
    assert misfit(counts, (errors + 0.1) ** (alpha + 0.2)) > 4  # else this would say nothing


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0, lambda remaining: 1 - remaining / 2])
def test_weights_are_those_of_the_formula(beta: Any) -> None:
    buffer = vectors(30, alpha=0.7, beta=beta, epsilon=0.01)
    buffer.progress_remaining = 0.5
    errors = np.random.default_rng(1).normal(size=30)
    buffer.update_priorities(numbers_of(buffer), errors)
    samples = buffer.sample(64)
    shares = (abs(errors) + 0.01) ** 0.7
    all_weights = (30 * shares / shares.sum()) ** -(beta(0.5) if callable(beta) else beta)
    expected = (all_weights / all_weights.max())[samples.indices]
    np.testing.assert_allclose(samples.weights.numpy(), expected[:, None].astype(np.float32), rtol=1e-6)
    assert samples.weights.dtype == torch.float32
    assert samples.weights.shape == (64, 1)


class Plain:
    """The oracle: what is in the rows of each environment, and its error, in lists."""

    def __init__(self, rows: int, n_envs: int, alpha: float, epsilon: float) -> None:
        self.size, self.n_envs, self.alpha, self.epsilon = rows * n_envs, n_envs, alpha, epsilon
        self.held: dict[int, float] = {}
        self.steps, self.largest = 0, 1.0

    def add(self) -> None:
        for number in range(self.steps * self.n_envs, (self.steps + 1) * self.n_envs):
            self.held.pop(number - self.size, None)
            self.held[number] = self.largest
        self.steps += 1

    def update(self, numbers: Any, errors: Any) -> None:
        for number, error in zip(numbers, errors, strict=True):
            if number in self.held:
                self.held[number] = (abs(error) + self.epsilon) ** self.alpha
                self.largest = max(self.largest, self.held[number])

    def priorities(self) -> list[float]:
        found = [0.0] * self.size
        for number, priority in self.held.items():
            found[number % self.size] = priority
        return found


@given(st.data())
def test_any_course_of_events(data: st.DataObject) -> None:
    rows, n_envs = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    buffer, plain = vectors(rows, n_envs, 0, epsilon=0.25), Plain(rows, n_envs, 0.6, 0.25)
    stream, kept = play(VECTOR, ACTIONS, n_envs, 10_000), list[Any]()
    for what in data.draw(st.lists(st.sampled_from(["add", "sample", "answer", "save", "some"]), max_size=40)):
        if what == "add":
            buffer.add(*next(stream))
            plain.add()
        elif what == "sample" and plain.steps:
            kept.append(buffer.sample(data.draw(st.integers(1, 5))).indices)
            assert set(kept[-1]) <= plain.held.keys()
        elif what in ("answer", "some") and kept:
            numbers = kept[-1] if what == "answer" else np.concatenate(kept)
            errors = data.draw(st.lists(st.floats(-9, 9), min_size=len(numbers), max_size=len(numbers)))
            buffer.update_priorities(numbers, torch.tensor(errors, dtype=torch.float64)[:, None])
            plain.update(numbers, errors)
        elif what == "save":
            buffer = pickle.loads(pickle.dumps(buffer))
        np.testing.assert_allclose(buffer.priorities[np.arange(rows * n_envs)], plain.priorities(), rtol=1e-12)


def test_what_was_written_over_is_left_out() -> None:
    buffer = vectors(8)
    samples = buffer.sample(8)
    assert sorted(samples.indices) == list(range(8))  # stratified, and all alike
    filled(buffer, VECTOR, 5, seed=1)
    buffer.update_priorities(samples.indices, np.full(8, 100.0))
    new, old = buffer.priorities[np.arange(5)], buffer.priorities[np.arange(5, 8)]
    np.testing.assert_array_equal(new, 1)
    np.testing.assert_allclose(old, 100**0.6, rtol=1e-6)
    filled(buffer, VECTOR, 1, seed=2)
    np.testing.assert_allclose(buffer.priorities[5], 100**0.6, rtol=1e-6)  # which is the largest, so the new one's too


def test_numbers_go_on_after_a_reset() -> None:
    buffer = vectors(8, n_envs=2)
    before = buffer.sample(4).indices
    buffer.reset()
    assert (buffer.size(), buffer.priorities.total) == (0, 0)
    with pytest.raises(cab.BufferEmptyError, match="learning_starts"):
        buffer.sample(1)
    filled(buffer, VECTOR, 3)
    buffer.update_priorities(before, np.full(4, 9.0))
    assert buffer.priorities.max == 1
    assert not set(before) & set(buffer.sample(50).indices)


@every_kind
def test_a_buffer_of_sb3_becomes_one_in_which_all_is_alike(kind: str) -> None:
    ours_class, stock_class, space, options = KINDS[kind]
    for steps in (30, 130):
        stock = filled(stock_class(200, space, ACTIONS, "cpu", 4, **options), space, steps)
        ours = ours_class.from_buffer(stock, alpha=0.5)
        assert (ours.pos, ours.full) == (stock.pos, stock.full)
        np.testing.assert_array_equal(ours.priorities[np.arange(200)], np.arange(200) < 4 * stock.size())
        filled(ours, space, 3, seed=1)
        samples = ours.sample(64)
        ours.update_priorities(samples.indices, np.ones(64))
        assert (samples.indices % 200 < 4 * ours.size()).all()
        ours.alpha = 0
        filled(stock, space, 3, seed=1)
        assert_same(type(seeded(1, stock.sample, 9))(*seeded(1, ours.sample, 9)[:-2]), seeded(1, stock.sample, 9))


@every_kind
def test_a_compressed_buffer_becomes_one_in_which_all_is_alike(kind: str) -> None:
    ours_class, _, space, options = KINDS[kind]
    plain_class = next(base for base in ours_class.__mro__ if "Prioritized" not in base.__name__)
    for steps in (0, 30, 130):
        plain = filled(plain_class(200, space, ACTIONS, "cpu", 4, **options, codec="delta"), space, steps)
        ours = ours_class.from_buffer(plain, alpha=0.5)
        assert (ours.pos, ours.full, ours.codec, ours.alpha) == (plain.pos, plain.full, "delta", 0.5)
        np.testing.assert_array_equal(ours.priorities[np.arange(200)], np.arange(200) < 4 * plain.size())
        ours.alpha = 0
        for seed in (1, 2):
            filled(ours, space, 3, seed=seed)
            filled(plain, space, 3, seed=seed)
            theirs = seeded(seed, plain.sample, 9)
            assert_same(type(theirs)(*seeded(seed, ours.sample, 9)[:-2]), theirs)


def test_options_of_a_compressed_buffer_are_kept_unless_others_are_told() -> None:
    plain = cab.CompressedReplayBuffer(20, STACKED, ACTIONS, "cpu", codec="zstd-3", normalize_images=True)
    become = cab.CompressedPrioritizedReplayBuffer.from_buffer
    assert (become(plain).codec, become(plain).normalize_images) == ("zstd-3", True)
    assert become(plain, codec="delta", normalize_images=False).codec == "delta"
    assert become(plain, compression_method="rle").codec == "rle"


def test_what_has_no_rows_of_the_host_is_refused() -> None:
    class Own(cab.CompressedReplayBuffer):
        """May hold anything."""

    for stock in (
        Own(20, VECTOR, ACTIONS, "cpu"),
        cab.CompressedNStepReplayBuffer(20, VECTOR, ACTIONS, "cpu"),
        GpuReplayBuffer(20, VECTOR, ACTIONS, "cpu"),
    ):
        with pytest.raises(cab.BufferClassError, match="takes a ReplayBuffer"):
            cab.CompressedPrioritizedReplayBuffer.from_buffer(stock)


@with_envs
@pytest.mark.parametrize("place", [(0, False), (5, False), (19, True)])
def test_a_position_that_is_set_from_outside_counts(place: tuple[int, bool], n_envs: int) -> None:
    buffer = vectors(20, n_envs, 12)
    before = buffer.sample(4)
    buffer.update_priorities(before.indices, np.full(4, 9.0))
    buffer.pos, buffer.full = place
    for _ in range(3):
        held = buffer.size() * n_envs
        if held:
            assert (buffer.sample(200).indices % (20 * n_envs) < held).all()
            assert (buffer.priorities[np.arange(20 * n_envs)] > 0).sum() == held
        filled(buffer, VECTOR, 1, seed=held)
    buffer.update_priorities(before.indices, np.full(4, 99.0))
    assert buffer.priorities.max < 99**0.6


def test_a_saved_buffer_goes_on_as_the_other_does() -> None:
    buffer = vectors(16, n_envs=2, steps=20, beta=0.7)
    samples = buffer.sample(16)
    buffer.update_priorities(samples.indices, np.arange(16))
    again = pickle.load(io.BytesIO(pickle.dumps(buffer)))
    for one in (buffer, again):
        filled(one, VECTOR, 3, seed=5)
    np.testing.assert_array_equal(again.priorities[np.arange(32)], buffer.priorities[np.arange(32)])
    for seed in range(5):
        mine, theirs = seeded(seed, again.sample, 12), seeded(seed, buffer.sample, 12)
        np.testing.assert_array_equal(mine.indices, theirs.indices)
        assert_same(tuple(mine[:-1]), tuple(theirs[:-1]))


def test_a_step_that_is_refused_takes_no_transition_away() -> None:
    buffer = vectors(8, steps=11)
    before = buffer.priorities[np.arange(8)]
    step = next(play(VECTOR, ACTIONS, 1, 1))
    buffer.adds_unchecked = False
    with pytest.raises(cab.ObservationError):
        buffer.add(step.obs[:, :3], *step[1:])
    np.testing.assert_array_equal(buffer.priorities[np.arange(8)], before)
    buffer.add(*step)
    assert buffer.sample(1).indices[0] in range(4, 12)


@pytest.mark.parametrize(
    ("indices", "errors", "error"),
    [
        ([0, 1], [1.0], PriorityError),
        ([0, 1], [1.0, np.nan], PriorityError),
        ([0, 1], [1.0, np.inf], PriorityError),
        ([0, 8], [1.0, 1.0], IndexError),
        ([-1, 0], [1.0, 1.0], IndexError),
    ],
)
def test_errors_that_mean_nothing_change_nothing(indices: Any, errors: Any, error: type[Exception]) -> None:
    buffer = vectors(8)
    with pytest.raises(error):
        buffer.update_priorities(np.array(indices), torch.tensor(errors))
    np.testing.assert_array_equal(buffer.priorities[np.arange(8)], 1)
    assert buffer._largest == 1


@pytest.mark.parametrize(
    "options",
    [
        *({"alpha": -1}, {"alpha": np.nan}, {"alpha": "0.6"}, {"alpha": None}),
        *({"epsilon": -1e-9}, {"beta": -0.1}, {"beta": lambda _: np.nan}),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(cab.BufferOptionError):
        vectors(8, **options)


def test_errors_in_bfloat16_count_as_what_they_are() -> None:
    buffer, wanted = vectors(8, epsilon=0.5), vectors(8, epsilon=0.5)
    errors = torch.tensor([0.1, 3.0, 100.3], dtype=torch.bfloat16)
    buffer.update_priorities(np.arange(3), errors)
    wanted.update_priorities(np.arange(3), errors.double())
    np.testing.assert_array_equal(buffer.priorities[np.arange(8)], wanted.priorities[np.arange(8)])


def test_indices_cannot_be_changed_by_mistake() -> None:
    samples = vectors(8).sample(4)
    with pytest.raises(ValueError, match="read-only"):
        samples.indices[0] = 1


def test_a_buffer_that_is_never_given_errors_warns() -> None:
    buffer = vectors(8)
    for _ in range(999):
        buffer.sample(1)
    with pytest.warns(cab.PrioritiesWarning, match="PrioritizedDQN"):
        buffer.sample(1)
    for _ in range(999):
        buffer.sample(1)
    buffer.update_priorities([0], [1.0])


def test_what_belongs_to_steps_is_told_from_a_space_of_the_same_size() -> None:
    space = spaces.Box(-1, 1, (7, 2), np.float32)
    buffer = cab.CompressedPrioritizedReplayBuffer(14, space, ACTIONS, "cpu", 2)
    fields = {"observations", "next_observations", "actions", "rewards", "dones", "timeouts"}
    assert set(per_step_fields(buffer)) == fields


def test_the_tree_counts_as_memory() -> None:
    plain = cab.CompressedReplayBuffer(1000, VECTOR, ACTIONS, "cpu")
    buffer = cab.CompressedPrioritizedReplayBuffer(1000, VECTOR, ACTIONS, "cpu")
    assert buffer.memory_usage().rest == plain.memory_usage().rest + buffer.priorities.nbytes


def test_to_torch_still_copies() -> None:
    buffer, array = vectors(8), np.zeros(3)
    buffer.to_torch(array)[0] = 1
    assert not array.any()


@pytest.mark.parametrize("kind", ["vector", "stacked", "n-step", "dict"])
def test_a_batch_shares_its_memory_with_nothing(kind: str) -> None:
    ours_class, _, space, options = KINDS[kind]
    buffer = filled(ours_class(50, space, ACTIONS, "cpu", 2, **options, alpha=0), space, 20)
    first = seeded(0, buffer.sample, 16)
    for part in (first.observations, first.next_observations, first.actions, first.rewards, first.dones):
        for tensor in part.values() if isinstance(part, dict) else [part]:
            tensor.zero_()
    assert seeded(0, buffer.sample, 16).rewards.any()
    again = filled(ours_class(50, space, ACTIONS, "cpu", 2, **options, alpha=0), space, 20)
    assert_same(tuple(seeded(0, buffer.sample, 16)[:-1]), tuple(seeded(0, again.sample, 16)[:-1]))


# All that Python may interrupt: the core's code, the adapter's and SB3's own between them.
EVERYWHERE = (SOURCES, str(Path(cab.__file__).parent), str(Path(stable_baselines3.__file__).parent))


def interrupt() -> None:
    raise KeyboardInterrupt


def test_after_an_interrupt_in_a_step_all_that_sb3_counts_has_a_priority() -> None:
    interrupts, steps = 0, endless()
    for nth in range(1, 400):
        buffer = filled(vectors(6, n_envs=2, steps=0), VECTOR, 4)
        try:
            with Interruption(nth, interrupt, sources=EVERYWHERE) as interruption:
                buffer.add(*next(steps))
        except KeyboardInterrupt:
            interrupts += 1
        buffer.add(*next(steps))
        held = np.arange(12) < 2 * buffer.size()
        np.testing.assert_array_equal(buffer.priorities[np.arange(12)], held, interruption.where)
        assert (buffer.sample(12).indices % 12 < 2 * buffer.size()).all()
        if interruption.left > 0:
            break
    assert interrupts > 5


def endless() -> Iterator[Any]:
    yield from play(VECTOR, ACTIONS, 2, 100_000)


class WithNotes(cab.CompressedPrioritizedReplayBuffer):
    """Keeps one more thing of each step, and gives it instead of rewards."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.notes = np.zeros((self.buffer_size, self.n_envs), np.float32)

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
        self.notes[self.pos] = reward
        super().add(obs, next_obs, action, reward, done, infos)

    def _get_samples(self, batch_inds: Any, env: Any = None) -> Any:
        samples = super()._get_samples(batch_inds, env)
        envs = np.zeros(len(batch_inds), np.int64)
        return samples._replace(discounts=torch.from_numpy(self.notes[batch_inds, envs]))


def test_what_a_subclass_keeps_of_each_step_is_read_where_all_is() -> None:
    space = spaces.Box(0, 255, (2, 12, 12), np.uint8)
    buffer = WithNotes(20, space, spaces.Discrete(2), n_envs=3)
    for step in range(30):
        obs = np.full((3, 2, 12, 12), step, np.uint8)
        buffer.add(obs, obs, np.zeros(3), np.arange(3) + 10.0 * step, np.zeros(3), [{}] * 3)
    samples = buffer.sample(64)
    assert (samples.discounts == samples.rewards[:, 0]).all()


@with_envs
def test_arrays_that_are_put_in_the_place_of_plain_ones_are_read(n_envs: int) -> None:
    buffer = vectors(20, n_envs)
    before = seeded(0, buffer.sample, 9)
    buffer.rewards = buffer.rewards + 100
    buffer.observations = np.asfortranarray(buffer.observations)  # whose rows are not one after the other
    after = seeded(0, buffer.sample, 9)
    np.testing.assert_array_equal(after.rewards, before.rewards + 100)
    assert_same(tuple(after._replace(rewards=before.rewards)[:-1]), tuple(before[:-1]))
    buffer.to_torch = lambda array, copy=True: torch.zeros(1)
    assert not buffer.sample(9).rewards.any()


class Counting(cab.CompressedPrioritizedReplayBuffer):
    """Counts what it draws, and keeps the last of it."""

    drawn = 0
    last_rows: Any = None

    def _get_samples(self, batch_inds: Any, env: Any = None) -> Any:
        self.drawn += len(batch_inds)
        self.last_rows = batch_inds
        return super()._get_samples(batch_inds, env)


@with_envs
@pytest.mark.parametrize("codec", ["none", "delta"])
def test_what_a_subclass_counts_while_it_samples_is_counted(codec: str, n_envs: int) -> None:
    buffer = filled(Counting(20 * n_envs, VECTOR, ACTIONS, "cpu", n_envs, codec=codec), VECTOR, 20)
    before = {name: value for name, value in vars(buffer).items() if name not in ("drawn", "last_rows")}
    samples = [buffer.sample(8) for _ in range(3)]
    assert buffer.drawn == 24
    assert np.array_equal(buffer.last_rows, samples[-1].indices // n_envs)
    for name in ("n_envs", "rewards", "observations", "_pairs"):
        assert getattr(buffer, name) == before[name] if name == "n_envs" else vars(buffer).get(name) is before.get(name)


class Sliced(cab.CompressedPrioritizedReplayBuffer):
    """Gives the first rewards instead of those drawn, by a slice, which numpy does not copy."""

    def _normalize_reward(self, reward: Any, env: Any = None) -> Any:
        return self.rewards.reshape(-1, 1)[: len(reward)] if isinstance(self.rewards, np.ndarray) else reward


@with_envs
@pytest.mark.parametrize("codec", ["none", "delta"])
def test_a_subclass_cannot_hand_out_the_buffers_own_memory(codec: str, n_envs: int) -> None:
    buffer = filled(Sliced(20 * n_envs, VECTOR, ACTIONS, "cpu", n_envs, codec=codec), VECTOR, 20)
    rewards = buffer.sample(8).rewards
    before = rewards.clone()
    buffer.rewards[:] = 77
    assert torch.equal(rewards, before)


class Converting(cab.CompressedPrioritizedReplayBuffer):
    """Calls to_torch in every way in which SB3's can be called."""

    def _get_samples(self, batch_inds: Any, env: Any = None) -> Any:
        samples = super()._get_samples(batch_inds, env)
        ones = np.ones((len(batch_inds), 1), np.float32)
        made = self.to_torch(ones, copy=False) + self.to_torch(ones, False) + self.to_torch(ones.tolist())
        return samples._replace(discounts=made)


@with_envs
@pytest.mark.parametrize("codec", ["none", "delta"])
def test_a_subclass_has_the_to_torch_of_sb3(codec: str, n_envs: int) -> None:
    buffer = filled(Converting(20 * n_envs, VECTOR, ACTIONS, "cpu", n_envs, codec=codec), VECTOR, 20)
    assert (buffer.sample(8).discounts == 3).all()


class WithNext(cab.CompressedPrioritizedReplayBuffer):
    """Gives the reward of the step that follows, too."""

    def _get_samples(self, batch_inds: Any, env: Any = None) -> Any:
        samples = super()._get_samples(batch_inds, env)
        envs = np.zeros(len(batch_inds), np.int64)
        return samples._replace(discounts=torch.from_numpy(self.rewards[(batch_inds + 1) % self.buffer_size, envs]))


@pytest.mark.parametrize("codec", ["none", "delta"])
def test_the_row_that_follows_is_of_the_same_environment(codec: str) -> None:
    buffer = WithNext(20 * 3, VECTOR, ACTIONS, n_envs=3, codec=codec)
    for number, step in enumerate(play(VECTOR, ACTIONS, 3, 20)):
        buffer.add(*step[:3], np.arange(3) * 100.0 + number, *step[4:])
    samples = buffer.sample(64)
    rewards = samples.rewards[:, 0]
    assert (samples.discounts == rewards // 100 * 100 + (rewards % 100 + 1) % 20).all()


@pytest.mark.parametrize("steps", [5, 13])
def test_exponents_that_are_set_later_count_for_all_errors(steps: int) -> None:
    buffer = vectors(8, n_envs=2, steps=steps, alpha=0.5, epsilon=0.01)
    numbers, others = numbers_of(buffer), numbers_of(buffer)[1:]
    errors = np.random.default_rng(0).exponential(size=len(others))
    buffer.update_priorities(others, errors)  # of the first, the error was never given
    buffer.set_exponents(0.9, 0.2)
    assert (buffer.alpha, buffer.epsilon) == (0.9, 0.2)
    priorities = buffer.priorities[np.arange(16)]
    np.testing.assert_allclose(priorities[others % 16], (errors + 0.2) ** 0.9, rtol=1e-9)
    assert (priorities > 0).sum() == len(numbers)
    filled(buffer, VECTOR, 1, seed=1)
    largest = (max(errors.max() + 0.01, 1.0) + 0.19) ** 0.9
    np.testing.assert_allclose(buffer.priorities.max, largest, rtol=1e-9)
    before = buffer.priorities[np.arange(16)]
    buffer.set_exponents(0.9, 0.2)
    np.testing.assert_array_equal(buffer.priorities[np.arange(16)], before)
    with pytest.raises(cab.BufferOptionError):
        buffer.set_exponents(-1, 0.2)


def test_exponents_that_are_set_to_zero_and_back_make_all_alike() -> None:
    buffer = vectors(8)
    buffer.update_priorities(numbers_of(buffer), np.arange(8))
    buffer.set_exponents(0, 1e-6)
    np.testing.assert_array_equal(buffer.priorities[np.arange(8)], 1)
    buffer.set_exponents(0.6, 0.1)
    filled(buffer, VECTOR, 2, seed=1)
    assert buffer.priorities.min == buffer.priorities.max


def test_a_schedule_goes_by_the_progress_that_a_loop_sets() -> None:
    buffer = vectors(8, beta=lambda remaining: 1 - remaining)
    assert buffer.current_beta == 0
    for remaining in (0.75, 0.5, 0.0, -0.25):  # SB3's falls below zero with the last steps
        buffer.progress_remaining = remaining
        assert buffer.current_beta == 1 - max(remaining, 0)
    buffer.beta = lambda remaining: remaining - 0.5
    with pytest.raises(cab.BufferOptionError, match=r"with 0 of the training to go it is -0\.5"):
        buffer.sample(1)
    buffer.beta = -0.5
    with pytest.raises(cab.BufferOptionError, match=r"not negative, and it is -0\.5"):
        buffer.sample(1)
