"""`sample_jax`: what the buffer holds, as JAX arrays of fixed shapes, the same with and without decoding ahead."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

import compressed_array_sb3 as cab
import compressed_array_sbx as cax
from compressed_array.sampling import Ring
from compressed_array_sbx._memory import lend
from compressed_array_sbx._to_jax import to_jax
from core_helpers.interruptions import SOURCES, Interruption
from sb3_helpers.experience import DICT, SPACES, Step, play, seeded
from sbx_helpers.normalizing import normalizing
from sbx_helpers.spaces import BOX, VECTORS

STACKED = SPACES["stacked"]
CLASSES: dict[str, tuple[type, Any, dict[str, Any]]] = {
    "images": (cax.CompressedReplayBuffer, STACKED, {}),
    "vectors": (cax.CompressedReplayBuffer, SPACES["vector"], {}),
    "dict": (cax.CompressedDictReplayBuffer, DICT, {}),
    "joined dict": (cax.CompressedDictReplayBuffer, VECTORS, {}),
    "n-step": (cax.CompressedNStepReplayBuffer, STACKED, {"n_steps": 3, "gamma": 0.9}),
    "dict n-step": (cax.CompressedDictNStepReplayBuffer, DICT, {"n_steps": 3, "gamma": 0.9}),
    "device": (cax.GpuReplayBuffer, STACKED, {"buffer_device": "cpu"}),
    "device dict": (cax.GpuDictReplayBuffer, DICT, {"buffer_device": "cpu"}),
}


def made(kind: str, steps: int = 0, rows: int = 30, **options: Any) -> Any:
    cls, space, more = CLASSES[kind]
    buffer = cls(rows * 3, space, BOX, "cpu", 3, **more, **options)
    buffer.rng = np.random.default_rng(0)
    for step in play(space, BOX, 3, steps):
        buffer.add(*step)
    return buffer


def leaves(batch: Any) -> dict[str, np.ndarray]:
    paths = jax.tree_util.tree_leaves_with_path(batch)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in paths}


def assert_same_batches(ours: Any, other: Any) -> None:
    mine, theirs = leaves(ours), leaves(other)
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert (mine[name].dtype, mine[name].shape) == (theirs[name].dtype, theirs[name].shape)
        assert mine[name].tobytes() == theirs[name].tobytes(), name


def as_jax(array: Any) -> np.ndarray:
    """A plain array in the dtype that JAX has for it."""
    return np.asarray(array).astype(jax.dtypes.canonicalize_dtype(np.asarray(array).dtype))


@pytest.mark.parametrize("steps", [20, 75])  # not full yet, and once round
@pytest.mark.parametrize("kind", [kind for kind in CLASSES if "n-step" not in kind])
def test_a_batch_is_transitions_of_the_buffer(kind: str, steps: int) -> None:
    buffer, space = made(kind, steps), CLASSES[kind][1]
    history = list(play(space, BOX, 3, steps))[-30:]
    known = {(float(np.float32(s.reward[i])), i): s for s in history for i in range(3)}
    batch = buffer.sample_jax(64)
    assert type(batch) is cax.JaxReplaySamples
    assert batch.rewards.shape == batch.dones.shape == (64,)
    seen = set()
    for at in range(64):
        which = [key for key in known if key[0] == float(batch.rewards[at])]
        assert len(which) == 1
        step, i = known[which[0]], which[0][1]
        seen.add((id(step), i))
        assert_step(batch, at, step, i)
    assert len(seen) > 20


def assert_step(batch: Any, at: int, step: Step, i: int) -> None:
    for ours, theirs in ((batch.observations, step.obs), (batch.next_observations, step.next_obs)):
        for key in ours if isinstance(ours, dict) else [None]:
            mine, true = (ours, theirs) if key is None else (ours[key], theirs[key])
            assert np.array_equal(np.asarray(mine[at]).reshape(-1), as_jax(true[i]).reshape(-1))
    assert np.array_equal(batch.actions[at], step.action[i].astype(np.float32))
    assert bool(batch.dones[at]) == bool(step.done[i] and not step.infos[i]["TimeLimit.truncated"])


class Draws:
    """What buffers draw for `sample_jax`, which SB3 is then made to draw as well."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch, self._positions = monkeypatch, list[np.ndarray]()
        draw = Ring.draw

        def noted(ring: Ring, words: Any) -> Any:
            self._positions.append(draw(ring, words))
            return self._positions[-1]

        monkeypatch.setattr(Ring, "draw", noted)

    def samples(self, buffer: Any, way: Any, env: Any = None) -> Any:
        """What `way` gives for the last draw."""
        rows, envs = divmod(self._positions[-1], buffer.n_envs)
        self._patch.setattr(np.random, "randint", lambda *args, **kwargs: envs)  # by which SB3 chooses environments
        return way(buffer, rows, env)


def assert_same_as_tensors(batch: Any, samples: Any) -> None:
    for name in ("observations", "next_observations"):
        mine, theirs = getattr(batch, name), getattr(samples, name)
        for key in mine if isinstance(mine, dict) else [...]:
            ours, stock = (mine, theirs) if key is ... else (mine[key], theirs[key])
            assert np.array_equal(ours, as_jax(stock.numpy()))
    assert np.array_equal(batch.actions, as_jax(samples.actions.numpy()))
    assert np.array_equal(batch.dones, samples.dones.numpy().reshape(-1))
    rewards = samples.rewards.numpy().reshape(-1)
    if batch.discounts is None:
        assert np.array_equal(batch.rewards, rewards)
    else:  # sums, in another order
        np.testing.assert_allclose(batch.rewards, rewards, rtol=1e-5, atol=1e-6)
        assert np.array_equal(batch.discounts, samples.discounts.numpy().reshape(-1))


@pytest.mark.parametrize("kind", ["n-step", "dict n-step"])
@pytest.mark.parametrize("steps", [20, 75])
def test_n_steps_are_sb3s(kind: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer, draws = made(kind, steps), Draws(monkeypatch)
    batch = buffer.sample_jax(200)
    assert_same_as_tensors(batch, draws.samples(buffer, NStepReplayBuffer._get_samples))


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("kind", CLASSES)
def test_what_vec_normalize_makes_of_a_batch_is_what_sb3_samples(
    kind: str, prefetch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, draws, env = made(kind, 75), Draws(monkeypatch), normalizing(CLASSES[kind][1], 3)
    if prefetch:
        buffer.sample_jax(60, env=env, prefetch=True)
    batch = buffer.sample_jax(60, env=env)
    assert_same_as_tensors(batch, draws.samples(buffer, type(buffer)._get_samples, env))
    raw = draws.samples(buffer, type(buffer)._get_samples).rewards.numpy().reshape(-1)
    assert not np.allclose(batch.rewards, raw)


@pytest.mark.parametrize("is_normalized", [False, True])
def test_goals_and_all_else_are_those_of_sb3s_buffer(is_normalized: bool) -> None:
    env = DummyVecEnv([lambda: BitFlippingEnv(n_bits=3, continuous=True, max_steps=6)] * 2)
    args, rng = (200, env.observation_space, env.action_space, env, "cpu", 2), np.random.default_rng(0)
    stock, ours = HerReplayBuffer(*args), cax.CompressedHerReplayBuffer(*args)
    obs = env.reset()
    for _ in range(40):
        action = rng.normal(size=(2, 3))
        after, *rest = env.step(action)
        for buffer in (stock, ours):
            buffer.add(dict(obs), dict(after), action, *rest)
        obs = after
    by: Any = VecNormalize(env, norm_obs=False) if is_normalized else None
    if is_normalized:
        by.ret_rms.update(rng.normal(size=20))
    batch, samples = seeded(3, ours.sample_jax, 50, by), seeded(3, stock.sample, 50, by)
    assert_same_as_tensors(batch, samples)
    assert batch.dones.any()
    assert not batch.dones.all()


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("alpha", [None, 0.6])
def test_ahead_or_not_is_the_same(kind: str, alpha: float | None) -> None:
    ahead, plain = made(kind, 10, alpha=alpha), made(kind, 10, alpha=alpha)
    rng = np.random.default_rng(5)
    for number, step in enumerate(play(CLASSES[kind][1], BOX, 3, 60, seed=1)):
        for buffer in (ahead, plain):
            buffer.add(*step)
        for _ in range(number % 3):
            size = 16 if number % 11 else 7
            batches = ahead.sample_jax(size, prefetch=number % 5 > 0), plain.sample_jax(size)
            assert_same_batches(*batches)
            if alpha is not None and number % 4:
                errors = rng.normal(size=size)
                for buffer, batch in zip((ahead, plain), batches, strict=True):
                    buffer.update_priorities(batch.indices, errors)


def test_what_was_decoded_ahead_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = made("images", 40)  # full
    buffer.sample_jax(500, prefetch=True)
    buffer._prefetched._thread.join()
    reads = []
    read = buffer._reader()
    monkeypatch.setattr(buffer, "_reader", lambda: lambda *steps: reads.append(len(steps[0])) or read(*steps))
    for step in play(STACKED, BOX, 3, 1, seed=1):
        buffer.add(*step)
    buffer.sample_jax(500)
    assert len(reads) == 1
    assert 0 < reads[0] < 60  # one row in thirty was written over


def test_a_reset_forgets_what_was_decoded_ahead() -> None:
    ahead, plain = made("images", 40), made("images", 40)
    ahead.sample_jax(50, prefetch=True), plain.sample_jax(50)
    for buffer in (ahead, plain):
        buffer.reset()
        with pytest.raises(cax.BufferEmptyError):
            buffer.sample_jax(50)
        for step in play(STACKED, BOX, 3, 9, seed=2):
            buffer.add(*step)
    assert_same_batches(ahead.sample_jax(50), plain.sample_jax(50))


@pytest.mark.parametrize("kind", ["images", "joined dict", "n-step"])
def test_a_buffer_that_was_decoded_ahead_is_freed_as_any_other(kind: str) -> None:
    gc.collect()
    gc.disable()
    try:
        buffer = made(kind, 40, alpha=0.6)
        buffer.sample_jax(8, prefetch=True)
        buffer._prefetched._thread.join()
        gone = weakref.ref(buffer)
        del buffer
        assert gone() is None
    finally:
        gc.enable()


def test_the_tree_counts_as_memory() -> None:
    plain, buffer = made("vectors"), made("vectors", alpha=0.6)
    assert buffer.memory_usage().rest == plain.memory_usage().rest + buffer.priorities.nbytes


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("kind", CLASSES)
def test_nothing_is_compiled_twice(kind: str, prefetch: bool) -> None:
    buffer = made(kind, 5, alpha=0.6)

    @jax.jit
    def update(batch: Any) -> Any:
        return sum(leaf.astype(np.float32).sum() for leaf in jax.tree.leaves(batch))

    for step in play(CLASSES[kind][1], BOX, 3, 40, seed=1):
        buffer.add(*step)
        assert np.isfinite(update(buffer.sample_jax(16, prefetch=prefetch)))
    assert update._cache_size() == 1


@pytest.mark.parametrize("kind", CLASSES)
def test_all_leaves_are_of_jax(kind: str) -> None:
    batch = made(kind, 20, alpha=0.5).sample_jax(8)
    for name, leaf in batch._asdict().items():
        parts = leaf.values() if isinstance(leaf, dict) else [leaf]
        if leaf is not None and name != "indices":
            assert all(isinstance(part, jax.Array) for part in parts)
    assert type(batch.indices) is np.ndarray


def test_batches_stay_what_they_are() -> None:
    buffer = made("images", 40)
    batches = [buffer.sample_jax(50, prefetch=True) for _ in range(6)]
    copies = [jax.tree.map(np.array, batch) for batch in batches]
    for step in play(STACKED, BOX, 3, 40, seed=1):
        buffer.add(*step)
        buffer.sample_jax(50, prefetch=True)
    for batch, copy in zip(batches, copies, strict=True):
        assert_same_batches(batch, copy)


def test_draws_are_uniform() -> None:
    buffer = made("vectors", 40)
    count = np.bincount(np.concatenate([drawn(buffer, 900) for _ in range(50)]), minlength=90)
    expected = 50 * 900 / 90
    assert ((count - expected) ** 2 / expected).sum() < 150  # chi-square of 89 degrees: once in ten thousand seeds


def drawn(buffer: Any, size: int) -> np.ndarray:
    buffer._count()
    return buffer._sampler.draw(buffer._words(size)[0])


def test_draws_follow_priorities() -> None:
    buffer = made("vectors", 40, alpha=1.0, epsilon=0.0)
    buffer.update_priorities(np.arange(30, 120), np.arange(90))
    count = np.bincount(np.concatenate([drawn(buffer, 900) for _ in range(50)]), minlength=90)
    expected = buffer.priorities[np.arange(90)] / buffer.priorities.total * 45000
    assert not count[expected == 0].any()
    there = expected > 0
    assert ((count - expected)[there] ** 2 / expected[there]).sum() < 150


@pytest.mark.parametrize("alpha", [None, 0.6])
def test_draws_come_in_no_order(alpha: float | None) -> None:
    buffer = made("vectors", 40, alpha=alpha)  # whose 90 transitions are all alike
    parts = drawn(buffer, 9000).reshape(100, 90)
    counts = np.stack([np.bincount(part // 30, minlength=3) for part in parts])
    assert counts.min() > 8  # of about 30, and 4.5 more or less
    assert (np.diff(parts, axis=1) < 0).mean() == pytest.approx(0.5, abs=0.03)


def test_what_is_drawn_by_priority_keeps_its_weight_and_number() -> None:
    buffer = made("vectors", 40, alpha=1.0, beta=1.0, epsilon=0.0)
    errors = np.random.default_rng(0).uniform(0.1, 1, 90)
    buffer.update_priorities(np.arange(30, 120), errors)
    batch = buffer.sample_jax(64)
    places = batch.indices % 90
    rows, envs = divmod(places, 3)
    assert (np.diff(places) < 0).any()
    assert np.array_equal(batch.rewards, buffer.rewards[rows, envs])
    assert np.array_equal(batch.observations, buffer.observations[rows, envs])
    weights = errors.min() / errors[batch.indices - 30]
    np.testing.assert_allclose(batch.weights, weights, rtol=1e-5)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_correct_for_priorities(beta: float) -> None:
    buffer = made("vectors", 40, alpha=0.7, beta=beta)
    numbers = np.arange(30, 120)
    errors = np.random.default_rng(0).normal(size=90)
    buffer.update_priorities(numbers, jax.numpy.asarray(errors))
    batch = buffer.sample_jax(200)
    priorities = (np.abs(np.float32(errors)) + 1e-6) ** 0.7
    chances = priorities / priorities.sum()
    weights = (90 * chances) ** -beta
    np.testing.assert_allclose(batch.weights, (weights / weights.max())[batch.indices - 30], rtol=1e-4)
    assert_same_batches(buffer.sample_jax(9, beta=0.0).weights, np.ones(9, np.float32))


def test_new_transitions_have_the_largest_priority() -> None:
    buffer = made("vectors", 20, alpha=1.0, epsilon=0.0)
    assert (buffer.priorities[np.arange(60)] == 1).all()
    buffer.update_priorities(np.arange(3), [5.0, 0.5, 2.0])
    for step in play(SPACES["vector"], BOX, 3, 1, seed=1):
        buffer.add(*step)
    assert (buffer.priorities[np.arange(60, 63)] == 5).all()
    assert buffer.priorities[0] == 5


def test_errors_of_what_was_written_over_are_left_out() -> None:
    buffer = made("vectors", 30, alpha=1.0)
    indices = buffer.sample_jax(90).indices
    for step in play(SPACES["vector"], BOX, 3, 30, seed=1):
        buffer.add(*step)
    before = buffer.priorities[np.arange(90)]
    buffer.update_priorities(indices, np.full(90, 99.0))
    assert np.array_equal(buffer.priorities[np.arange(90)], before)


@given(st.data())
def test_any_order_of_steps_and_samples(data: st.DataObject) -> None:
    alpha = data.draw(st.sampled_from([None, 0.6]))
    ahead, plain = (made("vectors", 1, rows=5, alpha=alpha, codec="delta") for _ in range(2))
    stream = play(SPACES["vector"], BOX, 3, 1000, seed=2)
    for action in data.draw(st.lists(st.sampled_from(["add", "sample", "other size", "round", "load"]), max_size=15)):
        if action in ("add", "round"):
            for _ in range(1 if action == "add" else 5):
                step = next(stream)
                ahead.add(*step)
                plain.add(*step)
        elif action == "load":
            ahead = pickle.loads(pickle.dumps(ahead))
        else:
            size = 8 if action == "sample" else 3
            assert_same_batches(ahead.sample_jax(size, prefetch=True), plain.sample_jax(size))


def test_the_seed_of_sb3_decides() -> None:
    batches = []
    for seed in (1, 1, 2):
        buffer = made("vectors", 20)
        buffer.rng = None
        batches.append(seeded(seed, buffer.sample_jax, 30))
    assert_same_batches(batches[0], batches[1])
    assert leaves(batches[0])[".rewards"].tobytes() != leaves(batches[2])[".rewards"].tobytes()


def test_a_converted_buffer_can_be_drawn_from() -> None:
    stock = ReplayBuffer(90, STACKED, BOX, "cpu", 3)
    for step in play(STACKED, BOX, 3, 75):
        stock.add(*step)
    buffer = cax.CompressedReplayBuffer.from_buffer(stock, alpha=0.6)
    buffer.rng = np.random.default_rng(0)
    batch = buffer.sample_jax(40)
    assert np.isin(np.asarray(batch.rewards), stock.rewards).all()
    assert (np.asarray(batch.weights) == 1).all()
    buffer.add(*next(play(STACKED, BOX, 3, 1)))
    assert buffer.priorities.total == 90


@pytest.mark.parametrize("options", [{"normalize_images": True}, {"output_dtype": "float"}], ids=str)
def test_images_as_floats(options: dict[str, Any]) -> None:
    floats, raw = made("images", 20, **options), made("images", 20)
    batch, plain = floats.sample_jax(16), raw.sample_jax(16)
    divided = 255 if "normalize_images" in options else 1
    assert batch.observations.dtype == np.float32
    assert np.array_equal(batch.observations, np.asarray(plain.observations, np.float32) / divided)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda b: b.sample_jax(8, beta=0.4), cax.BufferOptionError),
        (lambda b: b.update_priorities([0], [1.0]), cax.BufferOptionError),
        (lambda b: made("vectors", alpha=-1.0), cax.BufferOptionError),
        (lambda b: made("vectors", alpha="0.6"), cax.BufferOptionError),
        (lambda b: made("vectors", alpha=1.0, epsilon=-1.0), cax.BufferOptionError),
        (lambda b: made("vectors", alpha=1.0, beta=-0.1), cax.BufferOptionError),
        (lambda b: made("vectors", alpha=1.0, beta=np.nan), cax.BufferOptionError),
        (lambda b: made("vectors", alpha=1.0, beta=lambda left: left), cax.BufferOptionError),
        (lambda b: made("vectors", beta=0.4), cax.BufferOptionError),
        (lambda b: made("vectors", epsilon=1e-6), cax.BufferOptionError),
        (lambda b: made("vectors", 9, alpha=1.0).sample_jax(8, beta=-1.0), cax.BufferOptionError),
        (lambda b: made("vectors").sample_jax(8), cax.BufferEmptyError),
        (lambda b: made("vectors", 9, alpha=1.0).update_priorities([0, 1], [1.0]), ValueError),
    ],
)
def test_what_makes_no_sense_raises(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call(made("vectors", 9))


@pytest.mark.parametrize("name", ["_get_samples", "sample", "to_torch"])
def test_a_subclass_that_makes_samples_in_its_own_way_is_refused(name: str) -> None:
    def own_way(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(cax.CompressedReplayBuffer, name)(self, *args, **kwargs)

    own = type("Own", (cax.CompressedReplayBuffer,), {name: own_way})(90, STACKED, BOX, "cpu", 3)
    own.add(*next(play(STACKED, BOX, 3, 1)))
    given_one = made("images", 9)
    setattr(given_one, name, getattr(given_one, name))
    for buffer in (own, given_one):
        with pytest.raises(cax.BufferClassError, match="call sample"):
            buffer.sample_jax(4)
        assert len(buffer.sample(4).rewards) == 4


def test_a_copy_of_all_attributes_leaves_out_what_is_decoded_ahead() -> None:
    buffer = made("images", 9)
    buffer.sample_jax(4, prefetch=True)
    state = pickle.loads(pickle.dumps(vars(buffer).copy()))
    assert state["_prefetched"] is None


def test_a_buffer_hands_its_priorities_options_on() -> None:
    options = {"alpha": 0.9, "beta": 0.5, "epsilon": 0.1}
    before = made("images", 9, **options)
    again = cax.CompressedReplayBuffer.from_buffer(before)
    assert {name: getattr(again, name) for name in options} == options
    assert cax.CompressedReplayBuffer.from_buffer(made("images", 9)).alpha is None
    by_schedule = cab.CompressedPrioritizedReplayBuffer(90, STACKED, BOX, "cpu", 3, alpha=0.9, beta=lambda left: left)
    assert cax.CompressedReplayBuffer.from_buffer(by_schedule).alpha == 0.9
    assert cab.CompressedPrioritizedReplayBuffer.from_buffer(before).epsilon == 0.1


def test_discrete_spaces_and_devices() -> None:
    buffer = cax.CompressedReplayBuffer(60, spaces.Discrete(9), spaces.Discrete(4), "cpu", 3)
    for step in play(spaces.Discrete(9), spaces.Discrete(4), 3, 20):
        buffer.add(*step)
    batch = buffer.sample_jax(10, device=jax.devices()[0])
    assert batch.observations.shape == batch.actions.shape == (10, 1)
    assert batch.observations.devices() == {jax.devices()[0]}


def test_importing_the_package_does_not_import_jax() -> None:
    code = (
        "import sys, numpy as np, compressed_array_sbx as cax; from gymnasium import spaces\n"
        "buffer = cax.CompressedReplayBuffer(9, spaces.Box(-1, 1, (3,)), spaces.Discrete(2), 'cpu')\n"
        "one = np.zeros((1, 3), np.float32); none = np.zeros(1)\n"
        "buffer.add(one, one, none, none, none, [{}])\n"
        "buffer.sample(4)\n"
        "assert not {'jax', 'sbx', 'flax'} & set(sys.modules)\n"
        "batch = buffer.sample_jax(4)\n"
        "assert 'jax' in sys.modules and batch.observations.shape == (4, 3)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_all_leaves_go_to_the_default_device() -> None:
    code = (
        "import jax, numpy as np, compressed_array_sbx as cax, torch; from gymnasium import spaces\n"
        "from compressed_array_sbx._to_jax import to_jax\n"
        "second = jax.devices()[1]\n"
        "jax.config.update('jax_default_device', second)\n"
        "args = (9, spaces.Box(0, 255, (4, 36, 36), np.uint8), spaces.Discrete(2), 'cpu')\n"
        "one = np.zeros((1, 4, 36, 36), np.uint8); none = np.zeros(1)\n"
        "for buffer in (\n"
        "    cax.CompressedReplayBuffer(*args, output_dtype='float'),\n"
        "    cax.CompressedReplayBuffer(*args, normalize_images=True),\n"
        "    cax.GpuReplayBuffer(*args, buffer_device='cpu'),\n"
        "):\n"
        "    buffer.add(one, one, none, none, none, [{}])\n"
        "    leaves = jax.tree.leaves(buffer.sample_jax(4))\n"
        "    assert len(leaves) == 5 and all(leaf.devices() == {second} for leaf in leaves)\n"
        "assert to_jax({'goal': torch.zeros(3)})['goal'].devices() == {second}\n"
        "assert to_jax(torch.zeros(3), jax.devices()[0]).devices() == {jax.devices()[0]}\n"
    )
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int64, torch.float64])
def test_a_tensor_comes_as_an_array_of_numpy_does(dtype: torch.dtype) -> None:
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    for part in (tensor, tensor.T):
        ours, theirs = to_jax(part), jax.device_put(part.numpy())
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)
    aligned = lend((64, 64), np.dtype(np.float32))
    assert to_jax(torch.from_numpy(aligned)).unsafe_buffer_pointer() == aligned.ctypes.data


class Elsewhere(torch.Tensor):
    """A tensor that says it is on a GPU, and hands over memory of the CPU."""

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", 0)

    def __dlpack_device__(self) -> Any:
        return self.as_subclass(torch.Tensor).__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.as_subclass(torch.Tensor).__dlpack__(**options)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int64, torch.float32, torch.float64], ids=str)
def test_a_tensor_of_a_gpu_comes_by_dlpack_as_one_of_the_host_does(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[Any] = []
    take = jax.dlpack.from_dlpack
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax.dlpack, "from_dlpack", lambda tensor: handed.append(tensor) or take(tensor))
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    for part in (tensor, tensor.T, tensor[:, 1:], tensor[:0]):
        for device in (None, jax.devices()[0]):
            ours = to_jax({"key": part.as_subclass(Elsewhere)}, device)["key"]
            theirs = jax.device_put(part.numpy())
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            assert np.array_equal(ours, theirs)
            assert ours.devices() == {jax.devices()[0]}
    assert len(handed) == 8
    assert all(isinstance(one, Elsewhere) and one.is_contiguous() for one in handed)
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")  # torch was installed for a GPU, JAX was not
    on_host = tensor.as_subclass(Elsewhere)
    monkeypatch.setattr(Elsewhere, "cpu", lambda self: self.as_subclass(torch.Tensor), raising=False)
    assert np.array_equal(to_jax(on_host), tensor.numpy())
    assert len(handed) == 8


def test_no_tensor_is_left_on_the_way() -> None:
    batch = made("device dict", 20).sample_jax(8)
    assert not any(isinstance(leaf, torch.Tensor) for leaf in jax.tree.leaves(batch))


def test_errors_of_what_is_no_more_or_never_was_raise_no_priority() -> None:
    buffer = made("vectors", 20, rows=5, alpha=1.0, epsilon=0.0)
    old = buffer.sample_jax(4).indices
    for step in play(SPACES["vector"], BOX, buffer.n_envs, 6, 1):
        buffer.add(*step)
    buffer.sample_jax(1)
    buffer.update_priorities(old, np.full(4, np.inf))
    with pytest.raises(IndexError, match="indices"):
        buffer.update_priorities([-5, 10**6], [1e30, 1e30])
    for step in play(SPACES["vector"], BOX, buffer.n_envs, 6, 2):
        buffer.add(*step)
    assert np.isfinite(np.asarray(buffer.sample_jax(8).weights)).all()
    assert buffer._sampler.tree.max == 1.0


def test_an_interrupt_leaves_no_step_without_a_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = made("vectors", 3, rows=50, alpha=1.0)
    buffer.sample_jax(2)
    for step in play(SPACES["vector"], BOX, buffer.n_envs, 4, 1):
        buffer.add(*step)
    advance = type(buffer._sampler.ring).advance

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(buffer._sampler.ring), "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        buffer.sample_jax(2)
    monkeypatch.setattr(type(buffer._sampler.ring), "advance", advance)
    buffer.sample_jax(2)
    count = buffer.size() * buffer.n_envs
    assert (buffer._sampler.tree[np.arange(count)] == 1.0).all()


# All that Python may interrupt: the core's code, the adapters' and SB3's own between them.
EVERYWHERE = (SOURCES, *(str(Path(str(package.__file__)).parent) for package in (cax, cab, stable_baselines3)))


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("steps", [4, 9])  # of a ring of six
def test_an_interrupt_keeps_all_that_was_learned(steps: int) -> None:
    stream, interrupts = play(SPACES["vector"], BOX, 3, 10_000, 1), 0
    for nth in range(1, 600):
        buffer = made("vectors", steps, rows=6, alpha=1.0, epsilon=0.0)
        held = np.arange(max(steps - 6, 0) * 3, steps * 3)
        buffer.update_priorities(held, np.linspace(0.1, 0.9, len(held)))
        before = buffer.priorities[np.arange(18)]
        try:
            with Interruption(nth, interrupt, sources=EVERYWHERE) as interruption:
                buffer.add(*next(stream))
                assert buffer.priorities is not None
        except KeyboardInterrupt:
            interrupts += 1
        buffer.add(*next(stream))
        new = np.repeat([(row - steps) % 6 < (buffer.pos - steps) % 6 for row in range(6)], 3)
        np.testing.assert_array_equal(buffer.priorities[np.arange(18)], np.where(new, 1.0, before), interruption.where)
        if interruption.left > 0:
            break
    assert interrupts > 5


@pytest.mark.parametrize("more", [5, 6, 7, 12])  # of a ring of six
def test_an_interrupt_before_the_ring_goes_round_keeps_nothing_old(more: int) -> None:
    buffer = made("vectors", 9, rows=6, alpha=1.0, epsilon=0.0)
    old = buffer.sample_jax(90).indices
    buffer.update_priorities(old, np.full(90, 0.5))
    for step in play(SPACES["vector"], BOX, 3, more + 1, 1):
        buffer.add(*step)
    buffer._added -= 1  # as an interrupt leaves it that comes after SB3's part of a step
    buffer.update_priorities(old, np.full(90, 0.25))
    assert (buffer.priorities[np.arange(18)] == 1.0).all()
    assert (buffer.sample_jax(50).indices > old.max()).all()
