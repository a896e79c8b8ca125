"""`CompressedStorage` against TorchRL's own storage: the same calls, the same answers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torchrl")

from tensordict import TensorDict, TensorDictBase, tensorclass
from torchrl.data import (
    ReplayBuffer,
    RoundRobinWriter,
    SliceSampler,
    SliceSamplerWithoutReplacement,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
    TensorDictRoundRobinWriter,
)
from torchrl.data.replay_buffers.samplers import PrioritizedSampler, RandomSampler, SamplerWithoutReplacement
from torchrl.envs.transforms import Compose, ToTensorImage, UnsqueezeTransform

import compressed_array as ca
from compressed_array_torch import BufferOptionError, BufferStateError, StepError
from compressed_array_torch._items import CPU, Delivery, DeviceItems
from compressed_array_torch.torchrl import CompressedStorage
from compressed_array_torch.torchrl.decoding import CompressedTensor
from torch_helpers.torchrl_streams import (
    CODECS,
    KEYS,
    PAIRS_OF_KEYS,
    Stream,
    assert_equal,
    check,
    mine_and_theirs,
    same_samples,
    storages,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """What a plain storage holds of a row that is written twice in one call is not defined on several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("codec", CODECS)
def test_it_answers_as_a_plain_storage_does(codec: Any) -> None:
    stream, both = Stream(), storages(20, codec)
    for index in range(12):
        step = stream.step()
        for storage in both:
            storage.set(index, step)
    check(*both, KEYS)
    for rows in (range(12, 17), torch.arange(17, 24) % 20, slice(4, 9), [9, 3, 11], torch.arange(24, 67) % 20):
        steps = stream.steps(len(torch.arange(20)[rows] if isinstance(rows, slice) else rows))
        for storage in both:
            storage.set(rows, steps)
        check(*both, KEYS)
    assert mine_and_theirs(both, lambda storage: storage.contains(torch.tensor([0, 19, 20]))).tolist() == [
        True,
        True,
        False,
    ]
    assert_equal(list(both[0]), list(both[1]))


@pytest.mark.parametrize("codec", ["auto", None])
def test_streams_side_by_side(codec: Any) -> None:
    stream, both = Stream((3,)), storages(40, codec, ndim=2)
    for index in range(5):
        step = stream.step()
        for storage in both:
            storage.set(index, step)
    for rows in (range(5, 9), torch.arange(9, 20) % 14):
        steps = stream.steps(len(rows))
        for storage in both:
            storage.set(rows, steps)
        check(*both, [*(key for key in KEYS if not isinstance(key, tuple)), *PAIRS_OF_KEYS])
    assert both[0].max_size == both[1].max_size == 42
    torch.manual_seed(0)
    mine = both[0]._rand_given_ndim(5)
    torch.manual_seed(0)
    assert_equal(mine, both[1]._rand_given_ndim(5))
    flat = both[0].flatten()
    assert isinstance(flat[:]["pixels"], CompressedTensor) == (codec is not None)  # nothing was decoded for that
    assert_equal(flat[5:9].clone(), both[1].flatten()[5:9])
    new = stream.steps(4)[:, :2]
    for storage in both:
        storage[torch.tensor([3, 0, 1, 2]), 1:] = new
    check(*both, [slice(None)])


def test_grids_of_streams() -> None:
    stream, both = Stream((2, 3)), storages(50, ndim=3)
    for rows in (range(4), torch.arange(4, 12) % 9):
        steps = stream.steps(len(rows))
        for storage in both:
            storage.set(rows, steps)
        index = torch.tensor([1, 3]), torch.tensor([1, 0]), torch.tensor([0, 2])
        check(*both, [slice(None), [1, 2], (1, slice(0, 1)), index, torch.arange(both[1].shape[0]) == 1])
    buffers = [ReplayBuffer(storage=storage, batch_size=6) for storage in both]
    same_samples(*buffers)


OPERATIONS = st.one_of(
    st.tuples(st.just("add")),
    st.tuples(st.just("extend"), st.integers(1, 25)),
    st.tuples(st.just("set"), st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True)),
    st.tuples(st.just("read"), st.sampled_from(KEYS)),
    st.tuples(st.just("sample"), st.integers(1, 9)),
    st.tuples(st.just("empty")),
    st.tuples(st.just("pickle")),
    st.tuples(st.just("load")),
)


@given(st.sampled_from(CODECS), st.lists(OPERATIONS, min_size=1, max_size=15), st.integers(0, 100))
def test_any_sequence_of_calls_has_the_same_answers(codec: Any, operations: list[Any], seed: int) -> None:
    stream = Stream(seed=seed)
    buffers = [TensorDictReplayBuffer(storage=storage) for storage in storages(17, codec)]
    for name, *arguments in [("add",), *operations]:
        if name == "add":
            step = stream.step()
            assert len({int(buffer.add(step.clone())) for buffer in buffers}) == 1
        elif name == "extend":
            steps = stream.steps(*arguments)
            mine, theirs = (buffer.extend(steps.clone()) for buffer in buffers)
            assert torch.equal(mine, theirs)
        elif name == "set":
            rows, steps = arguments[0], stream.steps(len(arguments[0]))
            steps["index"] = torch.tensor(rows)
            for buffer in buffers:
                buffer.storage[rows] = steps
        elif name == "empty":
            for buffer in buffers:
                buffer.empty()
            step = stream.step()
            for buffer in buffers:
                buffer.add(step.clone())
        elif name == "pickle":
            buffers[0] = pickle.loads(pickle.dumps(buffers[0]))
        elif name == "load":
            fresh = TensorDictReplayBuffer(storage=CompressedStorage(17, codec=codec))
            fresh.load_state_dict(buffers[0].state_dict())
            buffers[0] = fresh
        elif name == "read":
            check(buffers[0].storage, buffers[1].storage, arguments)
        else:
            same_samples(*buffers, arguments[0])
    check(buffers[0].storage, buffers[1].storage, KEYS)


# TorchRL's parts.

SAMPLERS: dict[str, Callable[[], Any]] = {
    "random": RandomSampler,
    "without replacement": SamplerWithoutReplacement,
    "slices": lambda: SliceSampler(slice_len=4, end_key=("next", "done"), strict_length=False),
    "slices by trajectory": lambda: SliceSampler(num_slices=3, traj_key="episode", strict_length=False),
    "slices without replacement": lambda: SliceSamplerWithoutReplacement(slice_len=2, end_key=("next", "done")),
}
WRITERS: dict[str, Callable[[], Any]] = {
    "round": RoundRobinWriter,
    "round with index": TensorDictRoundRobinWriter,
    "generations": lambda: TensorDictRoundRobinWriter(track_generations=True),
    "best": lambda: TensorDictMaxValueWriter(rank_key=("next", "reward")),
}


def buffers_of(size: int = 60, ndim: int = 1, **parts: Callable[[], Any]) -> list[TensorDictReplayBuffer]:
    options = {name: part for name, part in parts.items() if not callable(part)}
    return [
        TensorDictReplayBuffer(
            storage=storage,
            batch_size=12,
            **options,
            **{name: part() for name, part in parts.items() if callable(part)},
        )
        for storage in storages(size, ndim=ndim)
    ]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers_and_writers(sampler: str, writer: str) -> None:
    buffers, stream = buffers_of(sampler=SAMPLERS[sampler], writer=WRITERS[writer]), Stream()
    for number in range(8):
        steps = stream.steps(15)
        ends = steps["next", "done"].squeeze(-1)
        steps["episode"] = number * 100 + ends.cumsum(0) - ends.long()
        for buffer in buffers:
            buffer.extend(steps.clone())
        for seed in range(3):
            same_samples(*buffers, seed=seed)
    assert_equal(buffers[0].storage[:].clone(), buffers[1].storage[:].clone())


def test_transforms_and_prefetching() -> None:
    def transform() -> Compose:
        return Compose(
            ToTensorImage(in_keys=["pixels", ("next", "pixels")], shape_tolerant=True),
            UnsqueezeTransform(dim=-1, in_keys=["number"], out_keys=["number"]),
        )

    buffers, stream = buffers_of(transform=transform), Stream()
    for _ in range(6):
        steps = stream.steps(13)
        for buffer in buffers:
            buffer.extend(steps.clone())
        assert same_samples(*buffers)["pixels"].dtype == torch.float32
    assert_equal(buffers[0][2:5], buffers[1][2:5])
    ahead = TensorDictReplayBuffer(storage=buffers[0].storage, batch_size=12, prefetch=2)
    assert ahead.sample()["pixels"].shape == (12, 4, 12, 12)


def test_batches_of_several_environments() -> None:
    """As collectors give them, (environments, time), with time as the storage's first axis."""
    buffers, stream = buffers_of(90, ndim=2, dim_extend=1), Stream((3,))
    for _ in range(8):
        steps = stream.steps(7).transpose(0, 1).contiguous()
        for buffer in buffers:
            buffer.extend(steps.clone())
        same_samples(*buffers)
        assert_equal(buffers[0][3:5].clone(), buffers[1][3:5].clone())
    slices = [SliceSampler(slice_len=4, end_key=("next", "done"), strict_length=False) for _ in buffers]
    for buffer, sampler in zip(buffers, slices, strict=True):
        buffer.set_sampler(sampler)
    same_samples(*buffers)


def test_values_are_changed_in_place() -> None:
    buffers = buffers_of(writer=WRITERS["generations"])
    steps = Stream().steps(40)
    for buffer in buffers:
        buffer.extend(steps.clone())
        sample = buffer[[3, 5]]
        buffer.set_at_("wide", torch.ones(2, 300, dtype=torch.float64), torch.tensor([1, 4]))
        buffer.set_(("next", "halves"), torch.full((40, 200), 0.5, dtype=torch.bfloat16))
        buffer.update_({"flags": torch.ones(40, 3, dtype=torch.bool), "pixels": steps["next", "pixels"]})
        buffer[2:4] = steps[10:12].set("index", torch.tensor([2, 3]))
        found = buffer.update_if_present(
            index=sample["index"],
            generation=torch.zeros(2),
            patch={("next", "pixels"): torch.ones(2, 4, 12, 12).byte()},
        )
        assert found.updated_count == 2
    assert_equal(buffers[0][:].clone(), buffers[1][:].clone())
    assert bool((buffers[0]["wide"][4] == 1).all())


def test_trajectories_are_found_without_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = TensorDictReplayBuffer(
        storage=CompressedStorage(1000), sampler=SliceSampler(slice_len=4, end_key=("next", "done")), batch_size=8
    )
    buffer.extend(Stream().steps(300))
    monkeypatch.delattr(CompressedTensor, "decoded")
    assert buffer.sample()["next", "pixels"].shape == (8, 4, 12, 12)
    assert "CompressedTensor" in repr(buffer[:])
    with pytest.raises(AttributeError, match="decoded"):
        buffer[:]["pixels"].sum()


def test_priorities() -> None:
    try:
        sampler = PrioritizedSampler(50, 0.7, 0.5)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"TorchRL's C++ extension does not load, so that it cannot prioritise in any storage: {error}")
    buffer = TensorDictReplayBuffer(storage=CompressedStorage(50), sampler=sampler, batch_size=8)
    steps = Stream().steps(40)
    buffer.extend(steps.clone())
    buffer.update_priority(torch.arange(40), torch.arange(40) == 7)
    sample = buffer.sample()
    assert sample["number"].unique().tolist() == [7]


# What data may be made of.


@tensorclass
class Transition:
    pixels: torch.Tensor
    reward: torch.Tensor
    next: TensorDict


def test_tensorclasses() -> None:
    stream, both = Stream(), storages(30)
    for _ in range(5):
        steps = stream.steps(8)
        data = Transition(steps["pixels"], steps["next", "reward"], steps["next"], batch_size=[8])
        for storage in both:
            storage.set(torch.arange(8 * _, 8 * _ + 8) % 30, data)
    check(*both, KEYS)
    assert type(both[0][[1, 2]]) is Transition
    loaded = pickle.loads(pickle.dumps(both[0]))
    check(loaded, both[1], KEYS)
    with pytest.raises(BufferStateError, match="Transitions: add one"):
        CompressedStorage(30).load_state_dict(both[0].state_dict())
    other = CompressedStorage(30)
    other.set(0, Transition(steps["pixels"], steps["next", "reward"], steps["next"], batch_size=[8])[0])
    other.load_state_dict(both[0].state_dict())
    check(other, both[1], KEYS)


MAKERS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda steps: steps["pixels"],
    "small tensor": lambda steps: steps["number"],
    "tuple": lambda steps: (steps["pixels"], {"a": steps["wide"], "b": [steps["flags"], steps["number"]]}),
    "dict": lambda steps: {"next": {"x": steps["next", "pixels"]}, "x": steps["pixels"]},
}


@pytest.mark.parametrize("make", MAKERS)
def test_tensors_and_trees(make: str, tmp_path: Path) -> None:
    stream, both = Stream(), storages(30)
    buffers = [ReplayBuffer(storage=storage, batch_size=5) for storage in both]
    for _ in range(5):
        data = MAKERS[make](stream.steps(8))
        for buffer in buffers:
            buffer.extend(data)
        same_samples(*buffers)
    check(*both, [key for key in KEYS if not (isinstance(key, tuple) and None in key)])
    buffers[0].dumps(tmp_path)
    loaded = ReplayBuffer(storage=CompressedStorage(30), batch_size=5)
    loaded.loads(tmp_path)
    same_samples(loaded, buffers[1])


def test_rows_one_by_one_in_a_list() -> None:
    stream, both = Stream(), storages(30)
    steps = [stream.step() for _ in range(7)]
    for storage in both:
        storage.set(range(7), steps)
    check(*both, KEYS)
    trees = storages(30)
    for storage in trees:
        storage.set(range(7), [(step["pixels"], {"a": step["wide"]}) for step in steps])
    check(*trees, [slice(None), [1, 2]])
    for rows, message in (
        ([], "nothing"),
        ([steps[0], steps[0].exclude("wide")], "lacks"),
        ([torch.zeros(3), torch.zeros(4)], "not alike"),
    ):
        with pytest.raises(StepError, match=message):
            both[0].set(range(len(rows)), rows)
    check(*both, KEYS)


def test_batch_axes_beyond_the_storage() -> None:
    steps = Stream().steps(24).reshape(6, 4)
    steps["inner"] = TensorDict({"x": torch.randn(6, 4, 100), "y": torch.zeros(6, 4, 2)}, [6, 4, 2][:2])
    both = storages(10)
    for storage in both:
        storage.set(range(6), steps)
    check(*both, [*KEYS, (slice(None), 2), (0, slice(1, 3)), (slice(1, 3), torch.tensor([0, 1]))])


@pytest.mark.parametrize("ndim", [1, 2])
def test_axes_keep_their_names(ndim: int) -> None:
    steps, both = Stream((3,)).steps(6), storages(30, ndim=ndim)
    steps.names = ["environment", "time"]
    for storage in both:
        storage.set(range(6), steps)
    keys = [key for key in KEYS if not (isinstance(key, tuple) and None in key)]
    check(*both, keys if ndim == 1 else [*keys, *PAIRS_OF_KEYS, torch.ones(6, 3, dtype=torch.bool)])
    fresh = CompressedStorage(30, ndim=ndim)
    fresh.load_state_dict(both[0].state_dict())
    check(fresh, both[1], [slice(None), [1, 2]])


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.bfloat16, torch.float16, torch.float8_e5m2, torch.int16, torch.complex64, torch.uint16]
)
def test_dtypes(dtype: torch.dtype) -> None:
    numbers = torch.randint(0, 2, (9, 400), generator=torch.Generator().manual_seed(0)).float()
    data = TensorDict({"a": numbers.to(dtype), "b": numbers[:, :3].to(dtype), "next": {"a": numbers.to(dtype)}}, [9])
    storage = CompressedStorage(20)
    for rows in (range(5), [7, 8, 5, 6]):
        storage.set(rows, data[list(rows)])
    for key in ([3, 1], slice(2, 9), -1):
        assert_equal(storage[key], data.to("cpu")[key])


# Codecs, memory, devices.


def stacks(count: int) -> TensorDictBase:
    stream = Stream(size=42)
    return torch.stack([stream.step() for _ in range(count)]).select("pixels", "number", "next")


def test_next_observations_cost_next_to_nothing_however_they_come() -> None:
    steps, held = stacks(600), {}
    for at_a_time in (1, 7, 64, 600):
        buffer = TensorDictReplayBuffer(storage=CompressedStorage(600, codec="delta"))
        for first in range(0, 600, at_a_time):
            part = steps[first : first + at_a_time].clone()
            buffer.add(part[0]) if at_a_time == 1 else buffer.extend(part)
        held[at_a_time] = buffer.storage.memory_usage().keys["pixels, next.pixels"].stored
        assert_equal(buffer[:].exclude("index").clone(), steps.to("cpu"))
    alone = CompressedStorage(600, codec="delta")
    alone.set(range(600), steps.exclude(("next", "pixels")))
    assert max(held.values()) < 1.1 * min(held.values())
    assert max(held.values()) < 1.25 * alone.memory_usage().keys["pixels"].stored


def test_memory_usage_and_repr() -> None:
    storage = CompressedStorage(500)
    assert "0 of 500" in repr(storage)
    storage.set(range(300), Stream(size=42).steps(300))
    usage = storage.memory_usage()
    assert (usage.transitions, usage.capacity) == (300, 500)
    assert usage.keys["pixels, next.pixels"].raw == 2 * 300 * 4 * 42 * 42
    assert usage.keys["pixels, next.pixels"].ratio > 15
    assert usage.keys["pixels, next.pixels"].shared > 250
    assert "300 of 500 transitions" in repr(storage)
    assert "pixels, next.pixels" in repr(TensorDictReplayBuffer(storage=storage))


def test_codecs_by_key() -> None:
    steps = Stream().steps(8)
    storage = CompressedStorage(20, codec={"pixels": "zstd-3", ("next", "halves"): "delta", "wide": None})
    storage.set(range(8), steps)
    usage = storage.memory_usage().keys
    assert usage["pixels, next.pixels"].codec == "zstd-3"  # what is next goes with what is now
    assert usage["next.halves"].codec.startswith("delta")
    assert usage["wide"].codec == "plain"
    apart = CompressedStorage(20, codec={"pixels": "zstd-3", "next.pixels": "delta"})
    apart.set(range(8), steps)
    assert {"pixels", "next.pixels"} <= apart.memory_usage().keys.keys()
    for storage in (CompressedStorage(20, codec=None), CompressedStorage(20, codec="none")):
        storage.set(range(8), steps)
        assert {key.codec for key in storage.memory_usage().keys.values()} == {"plain"}


def test_options_that_make_no_sense_are_refused() -> None:
    for options in ({"max_size": 0}, {"max_size": 5, "ndim": 0}):
        with pytest.raises(BufferOptionError, match="from 1 on"):
            CompressedStorage(**options)
    with pytest.raises(ca.UnknownCodecError):
        CompressedStorage(5, codec="zsdt")
    with pytest.raises(ca.UnknownCodecError):
        CompressedStorage(5, codec={"pixels": "zsdt"})
    storage = CompressedStorage(5, codec={"pixel": "delta"})
    with pytest.raises(BufferOptionError, match=r"codecs for \['pixel'\]"):
        storage.set(0, Stream().step())
    assert not storage.initialized


def test_a_device_holds_the_same() -> None:
    """The classes for devices, on a device that is here."""
    stream, both = Stream((2,)), storages(40, "delta", ndim=2)
    both[0]._init(Stream((2,)).step())
    for column in both[0]._contents.columns._compressed:
        column.items = DeviceItems(column.kind, 20 * len(column.kinds), "delta", CPU, Delivery(CPU))
    for index in range(5):
        step = stream.step()
        for storage in both:
            storage.set(index, step)
    for rows in (range(5, 9), torch.arange(9, 28) % 20):
        steps = stream.steps(len(rows))
        for storage in both:
            storage.set(rows, steps)
        check(*both, [3, slice(2, 5), [1, 2], *PAIRS_OF_KEYS])
    state = both[0].state_dict()
    both[0]._empty()
    both[0].load_state_dict(state)
    check(*both, [3, slice(2, 5), [1, 2]])


def test_batches_go_where_they_are_sent() -> None:
    storage = CompressedStorage(20, device="meta")
    storage.set(range(8), Stream().steps(8))
    batch = storage[[1, 2]]
    assert batch.device.type == batch["next", "pixels"].device.type == batch["number"].device.type == "meta"
    assert storage[:]["number"].device.type == "cpu"
    assert RandomSampler().sample(storage, 4)[0].device.type == "cpu"
