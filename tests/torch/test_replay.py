"""`ReplayBuffer` against a record of every step."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch

import compressed_array_torch as cat
from compressed_array_torch import BufferOptionError, ReplayBuffer, ResetStrategy, StepError
from compressed_array_torch._dense_pair import DensePair
from compressed_array_torch._items import CPU, Delivery, DeviceItems
from compressed_array_torch._pairs import DevicePair
from compressed_array_torch._rows import Rows
from torch_helpers.histories import SHAPES, History, assert_same, at, dtype_of, numbers_of

CODECS = [None, "auto", "delta", "delta-zstd", "zstd-3", "none"]


def new_buffer(kind: str, size: int = 20, lanes: int = 3, **options: Any) -> ReplayBuffer:
    generator = torch.Generator().manual_seed(7)
    dtypes = {"obs_dtype": dtype_of(kind), "action_dtype": torch.int64, "generator": generator}
    return ReplayBuffer(size, lanes, SHAPES[kind][0], (), **dtypes, **options)


def check(history: History, buffer: ReplayBuffer, batch: cat.ReplayBatch) -> None:
    """All of a batch is what the steps that it is of were."""
    oldest = (len(history.steps) - len(buffer)) * history.lanes
    for row, number in enumerate(numbers_of(batch)):
        assert number >= oldest
        step = history.step(number)
        assert_same(at(batch.observations, row), step.obs)
        last, total, discount = step, step.reward, 1.0
        if buffer.n_step is not None:
            assert batch.discounts is not None
            last, total, discount = slow_return(history, number, buffer.n_step, buffer.gamma)
            assert float(batch.discounts[row]) == pytest.approx(discount)
        assert float(batch.rewards[row]) == pytest.approx(total, rel=1e-5, abs=1e-5)
        assert_same(at(batch.next_observations, row), last.next_obs)
        assert (bool(batch.terminated[row]), bool(batch.truncated[row])) == (last.terminated, last.truncated)
        assert float(batch.dones[row]) == (last.terminated or last.truncated)


def slow_return(history: History, number: int, n: int, gamma: float) -> tuple[Any, float, float]:
    total, factor, step = 0.0, 1.0, history.step(number)
    for k in range(n):
        if number + k * history.lanes >= len(history.steps) * history.lanes:
            break
        step = history.step(number + k * history.lanes)
        total, factor = total + factor * step.reward, factor * gamma
        if step.terminated:
            return step, total, 0.0
        if step.truncated:
            break
    return step, total, factor


@pytest.mark.parametrize("n_step", [None, 1, 3])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", SHAPES)
def test_what_comes_out_is_what_went_in(kind: str, codec: Any, n_step: int | None) -> None:
    history, buffer = History(kind, 3), new_buffer(kind, codec=codec, n_step=n_step)
    for step in range(70):
        history.add_to(buffer, as_numpy=step % 2 == 0)
        if step % 7 == 0 or step in (19, 20, 21):
            check(history, buffer, buffer.get(16))
    batch = buffer.get(600)
    check(history, buffer, batch)
    assert set(numbers_of(batch)) == set(range(50 * 3, 70 * 3))  # one in 10,000 seeds leaves one out


@pytest.mark.parametrize("kind", ["images", "vectors", "tree"])
def test_codecs_give_the_same_batches(kind: str) -> None:
    history, buffers = History(kind, 3), [new_buffer(kind, codec=codec, n_step=2) for codec in CODECS]
    for _ in range(50):
        history.add_to(*buffers)
        batches = [buffer.get(8) for buffer in buffers]
        for batch in batches[1:]:
            assert_same(batch.observations, batches[0].observations)
            assert_same(batch.next_observations, batches[0].next_observations)
            assert_same(batch.rewards, batches[0].rewards)


def test_dense_next_observations_are_kept_once() -> None:
    history, buffer = History("wide", 4, ends=0.01), new_buffer("wide", 100, 4, codec=None)
    for _ in range(350):
        history.add_to(buffer)
    usage = buffer.memory_usage().keys["observations"]
    assert usage.stored < 0.6 * usage.raw
    check(history, buffer, buffer.get(500))


@pytest.mark.parametrize("codec", ["zstd-3", "rle-jit", "delta"])
def test_compressed_next_observations_are_kept_once(codec: str) -> None:
    """Also of a buffer that goes on from a state."""
    history, buffer, loaded = (
        History("images", 4, ends=0.01),
        *(new_buffer("images", 100, 4, codec=codec) for _ in "ab"),
    )
    for _ in range(150):
        history.add_to(buffer)
    loaded.load_state_dict(saved(buffer))
    for _ in range(150):
        history.add_to(buffer, loaded)
    for one in (buffer, loaded):
        assert one.memory_usage().keys["observations"].shared > 0.9 * 400
        check(history, one, one.get(100))


def test_nothing_in_common_takes_no_more_than_twice() -> None:
    buffer, flags = new_buffer("wide", 50, 2, codec=None), torch.zeros(2)
    for step in range(200):
        obs, after = torch.full((2, 300), step + 0.25).double(), torch.full((2, 300), step + 0.5).double()
        buffer.add(obs, torch.full((2,), step), flags, flags, after, flags)
    usage = buffer.memory_usage().keys["observations"]
    assert usage.stored < 1.1 * usage.raw
    batch = buffer.get(100)
    assert torch.equal(batch.next_observations, batch.observations + 0.25)


@pytest.mark.parametrize("kind", ["images", "vectors", "halves"])
def test_a_device_holds_the_same(kind: str) -> None:
    """The classes for devices, on a device that is here: compressed, and with slots that are made as needed."""
    history, plain = History(kind, 3), new_buffer(kind, codec=None)
    on_device, apart = new_buffer(kind, codec=None), new_buffer(kind, codec=None)
    observation = plain._storage.pairs["observations"].kind
    on_device._storage.pairs["observations"] = DevicePair(observation, 20, "delta", CPU, Delivery(CPU))
    pair = DensePair(observation, 20, CPU, Delivery(CPU))
    pair._slots_apart, pair._slots = True, pair._items[:0]
    apart._storage.pairs["observations"] = pair
    for _ in range(70):
        history.add_to(plain, on_device, apart)
        batches = [buffer.get(16) for buffer in (plain, on_device, apart)]
        for batch in batches[1:]:
            assert_same(batch.observations, batches[0].observations)
            assert_same(batch.next_observations, batches[0].next_observations)
    state = io.BytesIO()
    torch.save(on_device.state_dict(), state)
    state.seek(0)
    on_device.load_state_dict(torch.load(state, weights_only=False))
    on_device.generator.set_state(plain.generator.get_state())  # type: ignore[union-attr]
    assert_same(on_device.get(16).next_observations, plain.get(16).next_observations)


@pytest.mark.parametrize("n_step", [None, 3])
def test_drawing_waits_for_no_device(n_step: int | None) -> None:
    """On `meta`, where there is nothing to be asked for, a look at any value of a tensor is an error."""
    buffer = new_buffer("images", codec=None, store_device="meta", device="meta", n_step=n_step)
    buffer._ring.advance(30)
    buffer._storage.pairs["observations"]._slots = torch.empty((5, 4, 12, 12), dtype=torch.uint8, device="meta")
    buffer.generator = None  # there is none for this device
    batch = buffer.get(16)
    assert {batch.observations.device.type, batch.next_observations.device.type, batch.rewards.device.type} == {"meta"}


def test_fields_of_a_device_come_back() -> None:
    buffer = new_buffer("vectors", fields={"state": cat.Field((100,))}, codec=None)
    kind = buffer._storage.kind("state")
    buffer._storage.items["state"] = DeviceItems(kind, 20, "delta", CPU, Delivery(CPU))
    history, states = History("vectors", 3), []
    for step in range(30):
        states.append(torch.full((3, 100), float(step)))
        history.add_to(buffer, state=states[-1])
    batch = buffer.get(50)
    assert_same(batch.state, torch.cat(states)[batch.actions])


def test_own_fields_are_kept_and_handed_out() -> None:
    fields = {
        "hidden": cat.Field((64,)),
        "latent": cat.Field((128,), torch.float32, "zstd1"),
        "legal": cat.Field((4,), bool),
    }
    buffer, history, given = new_buffer("images", fields=fields), History("images", 3), []
    for _ in range(30):
        given.append({"hidden": torch.randn(3, 64), "latent": torch.randn(3, 128), "legal": torch.rand(3, 4) < 0.5})
        history.add_to(buffer, **given[-1])
    batch = buffer.get(64)
    for name in fields:
        assert_same(getattr(batch, name), torch.cat([step[name] for step in given])[batch.actions])
        assert batch.extras[name] is getattr(batch, name)
    with pytest.raises(AttributeError, match="no attribute 'cell'"):
        _ = batch.cell


def test_codecs_by_name() -> None:
    codec = {"observations.camera.left": "delta", "camera": "zstd-3", "speed": None, "actions": None}
    buffer = new_buffer("tree", codec=codec)
    usage = buffer.memory_usage().keys
    assert usage["observations.camera.left"].codec.startswith("delta")
    assert usage["observations.camera.right"].codec == "zstd-3"
    assert usage["observations.speed"].codec == "plain"
    with pytest.raises(BufferOptionError, match=r"codecs for \['image'\]"):
        new_buffer("tree", codec={"image": "delta"})
    with pytest.raises(cat.BufferOptionError, match="cannot be called 'reward'"):
        new_buffer("images", fields={"reward": cat.Field()})


def test_compressed_images_take_little() -> None:
    buffer, flags = ReplayBuffer(2000, 1, (84, 84), (), obs_dtype=torch.uint8, action_dtype=torch.int64), torch.zeros(1)
    obs = torch.zeros(1, 84, 84, dtype=torch.uint8)
    for step in range(500):
        after = obs.clone()
        after[0, step % 84] += 1
        buffer.add(obs, flags.long(), flags, flags, after, flags)
        obs = after
    usage = buffer.memory_usage()
    assert usage.ratio > 20
    assert "smaller" in repr(buffer)
    assert usage.transitions == 500


# The order and the names of arguments.


def step_of(lanes: int = 3) -> dict[str, Any]:
    obs, flags = torch.zeros(lanes, 4, 12, 12, dtype=torch.uint8), torch.zeros(lanes)
    return {"obs": obs, "action": flags.long(), "reward": flags, "done": flags, "next_obs": obs, "truncated": flags}


def test_the_other_order_is_refused_by_name() -> None:
    buffer, step = new_buffer("images"), step_of()
    with pytest.raises(StepError, match=r"done, next_obs, truncated\).*done, truncated, next_obs\)"):
        buffer.add(*[step[name] for name in ("obs", "action", "reward", "done", "truncated", "next_obs")])
    assert len(buffer) == 0
    buffer.add(*step.values())
    buffer.add(**step)
    assert len(buffer) == 2


def test_done_stands_for_either_end() -> None:
    buffer = new_buffer("images")
    done, truncated = torch.tensor([1.0, 1.0, 0.0]), torch.tensor([0.0, 1.0, 0.0])
    buffer.add(**step_of() | {"action": torch.arange(3), "done": done, "truncated": truncated})
    batch = buffer.get(60)
    assert torch.equal(batch.terminated, batch.actions == 0)
    assert torch.equal(batch.truncated, batch.actions == 1)
    assert torch.equal(batch.dones, (batch.actions < 2).float())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": torch.zeros(2, 4, 12, 12, dtype=torch.uint8)}, r"observations is of shape \(2, 4, 12, 12\)"),
        ({"obs": torch.full((3, 4, 12, 12), 300)}, "does not fit"),
        ({"obs": torch.full((3, 4, 12, 12), 0.5)}, "does not fit"),
        ({"next_obs": {"image": torch.zeros(3)}}, "next_obs lacks"),
        ({"next_obs": None}, "next_obs is missing"),
        ({"action": torch.full((3,), 0.5)}, "does not fit"),
        ({"reward": torch.zeros(4)}, "rewards is of shape"),
        ({"done": None}, "either terminated, or done"),
        ({"terminated": torch.zeros(3)}, "either terminated, or done"),
        ({"hidden": torch.zeros(3)}, "no field 'hidden'"),
    ],
)
def test_a_step_that_does_not_fit_changes_nothing(change: dict[str, Any], message: str) -> None:
    history, buffer = History("images", 3), new_buffer("images")
    for _ in range(25):
        history.add_to(buffer)
    with pytest.raises(StepError, match=message):
        buffer.add(**step_of() | change)
    assert len(buffer) == 20
    check(history, buffer, buffer.get(200))
    history.add_to(buffer)
    check(history, buffer, buffer.get(200))


def test_a_missing_field_is_named() -> None:
    buffer = new_buffer("images", fields={"hidden": cat.Field((8,))})
    with pytest.raises(StepError, match=r"lacks \['hidden'\]"):
        buffer.add(**step_of())


@pytest.mark.parametrize("options", [{"size": 0}, {"lanes": 0}, {"n_step": 0}, {"n_step": 21}])
def test_sizes_that_make_no_sense_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(BufferOptionError):
        new_buffer("images", **options)


def test_one_environment_needs_no_axis_of_its_own() -> None:
    buffer = ReplayBuffer(5, 1, (3,), ())
    buffer.add(np.ones(3, np.float32), 0.0, 1.5, terminated=False, truncated=False, next_obs=np.ones((1, 3)))
    assert buffer.get(2).rewards.tolist() == [1.5, 1.5]


def test_read_only_and_reversed_arrays_are_taken() -> None:
    buffer = ReplayBuffer(5, 2, (3,), (), codec=None)
    obs = np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1]
    obs.flags.writeable = False
    big = obs.astype(">f4")
    buffer.add(obs, np.zeros(2), np.zeros(2), terminated=np.zeros(2), next_obs=big)
    batch = buffer.get(20)
    assert torch.equal(batch.observations, batch.next_observations)


# What a buffer does when it is full.


def test_full_buffers_do_as_they_are_told() -> None:
    for strategy, sizes in (
        (ResetStrategy.RECURRENT, [1, 2, 3, 4, 4, 4, 4, 4, 4, 4]),
        (ResetStrategy.AUTO, [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]),
    ):
        history, buffer = History("images", 3), new_buffer("images", 4, reset_strategy=strategy)
        for size in sizes:
            history.add_to(buffer)
            assert len(buffer) == size
            check(history, buffer, buffer.get(40))
    history, buffer = History("images", 3), new_buffer("images", 4, reset_strategy=ResetStrategy.ERROR)
    for _ in range(4):
        history.add_to(buffer)
    with pytest.raises(cat.BufferFullError, match="call reset"):
        buffer.add(**step_of())
    check(history, buffer, buffer.get(40))
    assert (buffer.full, buffer.capacity, buffer.total_capacity) == (True, 4, 12)
    assert (len(buffer), buffer.current_size, buffer.total_current_size) == (4, 4, 12)
    buffer.reset()
    assert (len(buffer), buffer.full) == (0, False)
    with pytest.raises(cat.NothingToSampleError, match="nothing to sample"):
        buffer.get(1)
    history.add_to(buffer)
    check(history, buffer, buffer.get(8))


def test_the_ring_goes_on_after_it_is_full() -> None:
    """Capacity 4, ten steps: the last four are there (and not the fourth and one after it)."""
    history, buffer = History("numbers", 1), new_buffer("numbers", 4, 1)
    for _ in range(10):
        history.add_to(buffer)
    assert set(numbers_of(buffer.get(100))) == {6, 7, 8, 9}


# Drawing.


def test_the_same_generator_draws_the_same() -> None:
    history, first, second = History("images", 3), new_buffer("images"), new_buffer("images", codec=None)
    for _ in range(30):
        history.add_to(first, second)
    torch.manual_seed(1)
    one = numbers_of(first.get(50))
    torch.manual_seed(2)
    assert numbers_of(second.get(50)) == one


def test_without_a_generator_torch_draws() -> None:
    history, buffer = History("images", 3), ReplayBuffer(20, 3, (4, 12, 12), (), None, torch.uint8, torch.int64)
    for _ in range(30):
        history.add_to(buffer)
    torch.manual_seed(3)
    one = numbers_of(buffer.get(50))
    torch.manual_seed(3)
    assert numbers_of(buffer.get(50)) == one
    assert numbers_of(buffer.get(50)) != one


def test_every_transition_is_as_likely() -> None:
    history, buffer = History("numbers", 2), new_buffer("numbers", 15, 2)
    for _ in range(40):
        history.add_to(buffer)
    counts = np.bincount(np.array(numbers_of(buffer.get(30_000))) - 50, minlength=30)
    assert ((counts - 1000) ** 2 / 1000).sum() < 29 + 6 * np.sqrt(2 * 29)


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_of_nothing_is_refused(size: int) -> None:
    buffer = new_buffer("images")
    buffer.add(**step_of())
    with pytest.raises(ValueError, match="at least one"):
        buffer.get(size)


# States.


def saved(buffer: Any) -> Any:
    file = io.BytesIO()
    torch.save(buffer.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", ["images", "wide", "halves", "tree"])
def test_a_state_goes_on_where_the_buffer_was(kind: str, codec: Any) -> None:
    options: dict[str, Any] = {
        "codec": codec,
        "n_step": 2,
        "fields": {"hidden": cat.Field((100,), torch.float32, "zstd1")},
    }
    history, buffer, loaded = History(kind, 3), new_buffer(kind, **options), new_buffer(kind, **options)
    for _ in range(33):
        history.add_to(buffer, hidden=torch.randn(3, 100))
    loaded.load_state_dict(saved(buffer))
    for _ in range(30):
        history.add_to(buffer, loaded, hidden=torch.randn(3, 100))
        one, two = buffer.get(16), loaded.get(16)
        check(history, loaded, two)
        assert numbers_of(one) == numbers_of(two)
        assert_same(one.hidden, two.hidden)


@pytest.mark.parametrize("codec", [None, "delta"])
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(codec: Any) -> None:
    history, buffer = History("images", 3), new_buffer("images", codec=codec)
    for _ in range(25):
        history.add_to(buffer)
    state = saved(buffer)
    others: list[Any] = [
        {},
        state | {"class": "RolloutBuffer"},
        {key: part for key, part in state.items() if key != "ring"},
        state | {"ring": state["ring"] | {"steps": 10**9}},
        state | {"storage": {}},
        state | {"storage": state["storage"] | {"rows": {}}},
        state | {"storage": state["storage"] | {"items": {}}},
        state | {"storage": state["storage"] | {"items": {"observations": torch.zeros(5, dtype=torch.uint8)}}},
        state | {"generator": state["generator"][:-7]},
        saved(new_buffer("images", 21, codec=codec)),
        saved(new_buffer("images", 20, 2, codec=codec)),
        saved(new_buffer("wide", codec=codec)),
        saved(new_buffer("images", codec=None if codec else "delta")),
    ]
    if codec is None:
        pair = state["storage"]["items"]["observations"]
        for lie in (
            {"first": pair["first"] + 10**6},
            {"second": pair["second"] - 10**6},
            {"turn": 99},
            {"last_row": -2},
        ):
            others.append(state | {"storage": state["storage"] | {"items": {"observations": pair | lie}}})
    else:
        flipped = state["storage"]["items"]["observations"].clone()
        flipped[len(flipped) // 2] ^= 1
        others.append(state | {"storage": state["storage"] | {"items": {"observations": flipped}}})
    for other in others:
        with pytest.raises(cat.BufferStateError):
            buffer.load_state_dict(other)
    check(history, buffer, buffer.get(100))


def test_batches_move_and_keep_their_class() -> None:
    buffer = new_buffer("tree", fields={"hidden": cat.Field((2,))}, n_step=2)
    History("tree", 3).add_to(buffer, hidden=torch.ones(3, 2))
    moved = buffer.get(4).to("meta")
    assert type(moved) is cat.ReplayBatch
    assert moved.observations["camera"]["left"].device.type == moved.hidden.device.type == "meta"
    assert moved.discounts is not None
    assert moved.discounts.device.type == "meta"


def test_a_step_that_failed_after_its_observations_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it left behind, the next ones are where they belong, and none of the others is touched."""
    history, buffer, write = History("vectors", 3), new_buffer("vectors", 10, codec=None), Rows.write

    def fail(*_: Any) -> None:
        raise MemoryError

    for turn in range(60):
        if turn % 3 == 2:
            monkeypatch.setattr(Rows, "write", fail)
            with pytest.raises(MemoryError):
                History("vectors", 3, seed=turn).add_to(buffer)
            monkeypatch.setattr(Rows, "write", write)
        history.add_to(buffer)
        check(history, buffer, buffer.get(60))
