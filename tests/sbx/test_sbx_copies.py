"""Nothing is copied on its way to JAX that need not be, and nothing is shared that may still change."""

from __future__ import annotations

import gc
import pickle
from collections import deque
from copy import deepcopy
from typing import Any

import jax
import numpy as np
import pytest
import torch
from gymnasium import spaces

import compressed_array_sb3 as cab
import compressed_array_sbx as cax
from compressed_array_sbx._joined_keys import ColumnArray, Columns, column_tensor
from compressed_array_sbx._memory import ALIGNED, SMALLEST, AlignedPool
from sb3_helpers.experience import SPACES, play, seeded
from sbx_helpers.spaces import DISCRETE, VECTORS


def filled(cls: type, space: Any, steps: int = 60, n_envs: int = 2, **options: Any) -> Any:
    buffer = cls(100, space, DISCRETE, "cpu", n_envs, **options)
    for step in play(space, DISCRETE, n_envs, steps):
        buffer.add(*step)
    return buffer


@pytest.mark.parametrize("space", ["stacked", "vector"])
def test_tensors_show_the_arrays_that_sb3_gathered(space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_copy(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("torch.tensor copies")

    buffer = filled(cax.CompressedReplayBuffer, SPACES[space])
    monkeypatch.setattr(torch, "tensor", no_copy)  # by which SB3 makes all of its tensors
    samples = buffer.sample(40)
    assert all(isinstance(part, torch.Tensor) for part in samples[:5])


def test_jax_takes_a_decoded_batch_as_it_is() -> None:
    batch = filled(cax.CompressedReplayBuffer, SPACES["stacked"]).sample(40).observations.numpy()
    assert batch.ctypes.data % ALIGNED == 0
    assert jax.device_put(batch).unsafe_buffer_pointer() == batch.ctypes.data


def test_a_batch_that_jax_looks_at_is_not_written_over() -> None:
    buffer = filled(cax.CompressedReplayBuffer, SPACES["stacked"])
    kept = [(jax.device_put(part), part.copy()) for _ in range(8) for part in [buffer.sample(40).observations.numpy()]]
    gc.collect()
    for _ in range(8):
        buffer.sample(40)
    for handed, copy in kept:
        assert np.array_equal(handed, copy)


def test_a_sample_does_not_change_with_the_buffer() -> None:
    buffer = filled(cax.CompressedReplayBuffer, SPACES["vector"])
    samples = seeded(0, buffer.sample, 50)
    before = [part.clone() for part in samples[:5]]
    for step in play(SPACES["vector"], DISCRETE, 2, 60, seed=1):
        buffer.add(*step)
    assert all(torch.equal(part, copy) for part, copy in zip(samples, before, strict=False))


def test_parts_of_the_buffer_itself_are_copied() -> None:
    class Newest(cax.CompressedReplayBuffer):
        """Samples by a slice, which numpy does not copy."""

        def _normalize_reward(self, reward: Any, env: Any = None) -> Any:
            return self.rewards[: len(reward)]

    buffer = filled(Newest, SPACES["vector"])
    rewards = buffer.sample(10).rewards
    before = rewards.clone()
    buffer.rewards[:] = 77
    assert torch.equal(rewards, before)


def test_to_torch_copies_outside_of_a_sample() -> None:
    buffer, array = filled(cax.CompressedReplayBuffer, SPACES["vector"]), np.zeros(3)
    tensor = buffer.to_torch(array)
    array[:] = 1
    assert not tensor.any()


@pytest.mark.parametrize("cls", [cax.CompressedDictReplayBuffer, cax.CompressedDictNStepReplayBuffer])
def test_keys_are_joined_without_a_copy(cls: type) -> None:
    samples = filled(cls, VECTORS).sample(33)
    for part in (samples.observations, samples.next_observations):
        joined = np.concatenate([part[key].numpy() for key in VECTORS], axis=1)
        assert type(joined) is np.ndarray
        assert joined.shape == (33, 17)
        assert joined.flags.c_contiguous
        assert all(np.shares_memory(joined, part[key].numpy()) for key in VECTORS)
        assert jax.device_put(joined).unsafe_buffer_pointer() == joined.ctypes.data


def test_any_other_way_to_join_keys_is_numpys() -> None:
    obs = filled(cax.CompressedDictReplayBuffer, VECTORS).sample(33).observations
    parts = [obs[key].numpy() for key in VECTORS]
    plain = [np.array(part) for part in parts]
    first, second, third = parts
    for chosen, options in [
        ([second, first, third], {"axis": 1}),
        ([first, second], {"axis": 1}),
        ([first, second, third, third], {"axis": 1}),
        ([first, first], {}),
        ([first, plain[1], third], {"axis": 1}),
        ([first[:5], second[:5], third[:5]], {"axis": 1}),
        (parts, {"axis": 1, "dtype": np.float64}),
        (parts, {"axis": -1}),
    ]:
        joined = np.concatenate(chosen, **options)
        assert np.array_equal(joined, np.concatenate([np.array(part) for part in chosen], **options))
        assert not any(np.shares_memory(joined, part) for part in parts)
    out = np.empty((33, 17), np.float32)
    assert np.concatenate(parts, axis=1, out=out) is out
    assert np.array_equal(out, np.concatenate(plain, axis=1))


def test_a_key_is_a_tensor_and_an_array_as_any_other() -> None:
    obs = filled(cax.CompressedDictReplayBuffer, VECTORS).sample(33).observations
    key = obs["far"]
    array = key.numpy()
    assert isinstance(key, torch.Tensor)
    assert type(key + 1) is torch.Tensor
    assert torch.equal(key, torch.from_numpy(np.array(array)))
    assert np.array_equal(jax.numpy.asarray(array), array)
    assert np.array_equal(jax.jit(lambda x: x * 2)(array), array * 2)
    assert np.array_equal(np.mean(array, axis=0), np.array(array).mean(0))


@pytest.mark.parametrize("space", ["mixed dtypes", "one key", "images", "long"])
def test_what_cannot_be_joined_lies_apart(space: str) -> None:
    near = VECTORS["near"]
    keys = {
        "mixed dtypes": {"a": near, "b": spaces.Box(-9, 9, (2,), np.float64)},
        "one key": {"a": near},
        "images": {"a": near, "b": SPACES["stacked"]},
        "long": {"a": near, "b": spaces.Box(-9, 9, (200,), np.float32)},
    }[space]
    buffer = filled(cax.CompressedDictReplayBuffer, spaces.Dict(keys))
    assert not isinstance(buffer.observations, Columns)


def test_joined_keys_survive_a_pickle_and_are_kept_once() -> None:
    buffer = filled(cax.CompressedDictReplayBuffer, VECTORS)
    data = pickle.dumps(buffer)
    assert len(data) < 3 * sum(buffer.observations[key].nbytes for key in VECTORS)
    again = pickle.loads(data)
    assert isinstance(again.observations, Columns)
    for step in play(VECTORS, DISCRETE, 2, 20, seed=1):
        buffer.add(*step)
        again.add(*step)
    mine, theirs = seeded(0, again.sample, 33), seeded(0, buffer.sample, 33)
    for key in VECTORS:
        assert torch.equal(mine.observations[key], theirs.observations[key])
        assert np.shares_memory(again.observations[key], again.observations.whole)
    assert again.memory_usage() == buffer.memory_usage()
    again.reset()
    assert isinstance(again.observations, Columns)


@pytest.mark.parametrize("way", ["assign", "update", "|="])
def test_a_key_that_is_assigned_is_sampled_and_written_to(way: str) -> None:
    buffer = filled(cax.CompressedDictReplayBuffer, VECTORS)
    obs = buffer.observations
    restored = np.full_like(obs["far"], 77)
    before = obs["near"].copy()
    if way == "assign":
        obs["far"] = restored
    elif way == "update":
        obs.update(far=restored)
    else:
        obs |= {"far": restored}
    for samples in (buffer.sample(9), pickle.loads(pickle.dumps(buffer)).sample(9), buffer.sample_jax(9)):
        assert (np.asarray(samples.observations["far"]) == 77).all()
    assert np.array_equal(obs["near"], before)
    for step in play(VECTORS, DISCRETE, 2, 50, seed=1):
        buffer.add(*step)
    assert not (buffer.sample(99).observations["far"] == 77).any()
    assert (restored == 77).all()


def test_a_key_takes_no_array_that_is_not_its_own() -> None:
    obs = filled(cax.CompressedDictReplayBuffer, VECTORS).observations
    before = obs.whole.copy()
    for name, value in [
        ("far", np.zeros(obs["far"].shape[2])),  # which numpy would repeat
        ("far", np.full(obs["far"].shape, 1e300)),
        ("other", obs["far"]),
    ]:
        with pytest.raises((KeyError, ValueError)):
            obs[name] = value
    assert np.array_equal(obs.whole, before)


def test_rows_that_are_not_there_raise() -> None:
    buffer = filled(cax.CompressedDictReplayBuffer, VECTORS)
    with pytest.raises(IndexError):
        buffer._get_samples(np.array([50]))
    before = {key: buffer.observations[key][49, :].copy() for key in VECTORS}
    last = buffer._get_samples(np.full(20, -1)).observations
    for key in VECTORS:
        assert all(row in before[key] for row in last[key].numpy())


def test_lent_memory_is_used_again_and_bounded() -> None:
    lender = AlignedPool(most=3 * SMALLEST)
    dtype = np.dtype(np.float32)
    arrays = [lender.lend((SMALLEST // 4,), dtype) for _ in range(5)]
    places = {array.ctypes.data for array in arrays}
    assert all(place % ALIGNED == 0 for place in places)
    assert len(places) == 5
    del arrays
    assert lender.nbytes == 3 * SMALLEST
    again = lender.lend((SMALLEST // 8, 2), dtype)
    assert again.ctypes.data in places
    view = again[3:]
    del again
    assert lender.lend((SMALLEST // 4,), dtype).ctypes.data != view.ctypes.data - 3 * 8
    small = lender.lend((7,), dtype)
    assert small.ctypes.data % ALIGNED == 0


def test_memory_that_another_thread_has_let_go_of_is_not_let_go_of_again() -> None:
    class Emptied(deque[Any]):
        """A deque that another thread empties just before its first item is taken."""

        def popleft(self) -> Any:
            self.clear()
            return super().popleft()

    lender = AlignedPool(most=0)
    lender._free = Emptied()
    lent = lender.lend((SMALLEST,), np.dtype(np.uint8))
    del lent  # an error here could not be raised, only warned of
    assert lender.nbytes == 0


def test_copies_of_columns_are_plain_tensors() -> None:
    array = np.arange(12.0, dtype=np.float32).reshape(3, 4)[:, 1:3].view(ColumnArray)
    array.joined, array.span = array.base, (1, 3)
    tensor = column_tensor(array)
    for copied in (deepcopy(tensor), pickle.loads(pickle.dumps(tensor))):
        assert type(copied) is torch.Tensor
        copied.zero_()
        assert not copied.numpy().any()
        assert array.any()
    tensor.data = torch.zeros(3, 2)
    assert not tensor.numpy().any()


def test_rows_in_two_dimensions_are_those_of_the_sb3_adapter() -> None:
    ours, theirs = (filled(package.CompressedDictReplayBuffer, VECTORS) for package in (cax, cab))
    for rows in (np.arange(9).reshape(3, 3), np.arange(289).reshape(17, 17) % 50, np.array([[3, -1], [0, -50]])):
        mine, stock = (seeded(0, buffer._get_samples, rows).observations for buffer in (ours, theirs))
        for key in VECTORS:
            assert torch.equal(mine[key], stock[key])
        parts, plain = ([obs[key].numpy() for key in VECTORS] for obs in (mine, stock))
        assert np.array_equal(np.concatenate(parts, axis=-1), np.concatenate(plain, axis=-1))
        with pytest.raises(ValueError, match="dimensions"):  # numpy's own: they differ in length along the last axis
            np.concatenate(parts, axis=1)
