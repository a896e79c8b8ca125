"""`DeviceArray` and the dense tensor it stands for: any writes leave both the same, bit for bit."""

from __future__ import annotations

import copy
import threading
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array.torch import DeviceArray, _host_lanes, _lanes
from core_helpers.streams import Stacked
from device_helpers.device_streams import CODECS, Twins, bits, random_bits, sweep
from device_helpers.faults import FAULTS, name_of


def can_be_copied(dtype: Any) -> bool:
    """Whether torch has more than a name for a dtype."""
    try:
        torch.empty(2, dtype=dtype)[:1] = torch.empty(2, dtype=dtype)[1:]
    except (NotImplementedError, RuntimeError, TypeError, UserWarning):
        return False
    return not str(dtype).startswith("torch.q")


DTYPES = sorted({d for d in vars(torch).values() if isinstance(d, torch.dtype) and can_be_copied(d)}, key=str)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", ["calm", "busy", "noise"])
@pytest.mark.parametrize("shape", ["stacked", "last axis", "unstacked", "odd"])
@pytest.mark.parametrize("source", ["host", "host without numba", "device"])
def test_rings(codec: str, kind: str, shape: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if source == "device":  # where items are compared that come from there, even if it is the host
        monkeypatch.setattr(_lanes, "is_on_host", lambda items: isinstance(items, np.ndarray))
    elif source == "host without numba":
        monkeypatch.setattr(_host_lanes, "native", lambda module: None)
    streams = {
        "stacked": Stacked(3, 4, (1, 20, 20), kind),
        "last axis": Stacked(3, 4, (20, 20, 1), kind, axis=2),
        "unstacked": Stacked(3, 1, (20, 20), kind),
        "odd": Stacked(2, 3, (1, 7, 13), kind),
    }
    twins = Twins(codec, 50, streams[shape])
    for _ in range(4):
        twins.add(35)
        twins.check()


class Steps:
    """Any writes, to an array and to a tensor."""

    def __init__(self, codec: str, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.array = DeviceArray((12, 3, 4, 9, 9), torch.uint8, item_ndim=3, codec=codec)
        self.plain = torch.zeros(self.array.shape, dtype=torch.uint8)
        self.stream = Stacked(3, 4, (1, 9, 9), episode=7, seed=seed)

    def values(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.from_numpy(self.rng.integers(0, [2, 256][self.rng.integers(2)], shape).astype(np.uint8))

    def step(self, what: int) -> None:
        rng = self.rng
        key: Any = int(rng.integers(-12, 12))
        value = torch.from_numpy(self.stream.step().obs)
        if what == 1:  # an item, broadcast to a row
            value = value[0]
        elif what == 2:
            key, value = (slice(2, 9, 2), 1), self.values((4, 4, 9, 9))
        elif what == 3:  # some of them twice: the last stays
            key = rng.integers(0, 12, 9), rng.integers(0, 3, 9)
            value = self.values((9, 4, 9, 9))
        elif what == 4:
            key, value = ..., torch.zeros((), dtype=torch.uint8)
        elif what == 5:
            key = torch.from_numpy(rng.permutation(12)[:5]), slice(None)
            value = self.values((5, 3, 4, 9, 9))
        elif what == 6:
            key = slice(3, 3)
            value = self.values((0, 3, 4, 9, 9))
        self.array[key] = value
        if what == 3:
            for row, lane, item in zip(*key, value, strict=True):
                self.plain[row, lane] = item
        else:
            self.plain[key] = value


@settings(max_examples=25, deadline=None)
@given(codec=st.sampled_from(CODECS), seed=st.integers(0, 999), steps=st.lists(st.integers(0, 9), max_size=40))
def test_any_writes(codec: str, seed: int, steps: list[int]) -> None:
    both = Steps(codec, seed)
    for what in steps:
        both.step(what)
    assert torch.equal(both.array[...], both.plain)
    rows, lanes = both.rng.integers(0, 12, 20), both.rng.integers(0, 3, 20)
    for key in [
        (rows, lanes),
        (rows, lanes, slice(None)),
        rows,
        3,
        -1,
        (2, 1),
        slice(None, None, 3),
        (..., 2, slice(4)),
    ]:
        assert torch.equal(both.array[key], both.plain[key])
    if both.array.store is not None:
        sweep(both.array.store)
        assert torch.equal(both.array[...], both.plain)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("codec", CODECS)
def test_every_dtype_keeps_its_bits(codec: str, dtype: torch.dtype) -> None:
    array = DeviceArray((40, 2, 5, 7), dtype, item_ndim=2, codec=codec)
    items = random_bits((40, 2, 5, 7), dtype)
    items[10:20] = items[9:10]  # some that are the same, and some of which little changes
    items[20:30, :, 1:] = items[20:21, :, 1:]
    for row in range(40):
        array[row] = items[row]
    assert array[0].dtype == dtype
    assert bits(array[:]) == bits(items)


def test_a_cell_that_was_never_written_is_zero() -> None:
    array = DeviceArray((5, 2, 4, 8, 8), torch.float32, item_ndim=3)
    assert not array[:].any()
    array[2] = torch.ones(2, 4, 8, 8)
    assert not array[[0, 1, 3, 4]].any()
    assert array[2].all()


def test_what_was_read_does_not_change() -> None:
    for codec in CODECS:
        array = DeviceArray((5, 2, 4, 8, 8), torch.uint8, item_ndim=3, codec=codec)
        array[1] = torch.ones(2, 4, 8, 8, dtype=torch.uint8)
        read = array[1]
        array[1] = torch.zeros(2, 4, 8, 8, dtype=torch.uint8)
        assert read.all()
        read[...] = 7
        assert not array[1].any()


def test_what_was_written_may_change_afterwards() -> None:
    for codec in CODECS:
        array = DeviceArray((9, 2, 4, 8, 8), torch.uint8, item_ndim=3, codec=codec)
        given, kept = torch.zeros(2, 4, 8, 8, dtype=torch.uint8), []
        for row in range(9):
            given += row
            array[row] = given
            kept.append(given.clone())
            given.fill_(99)
            given.copy_(kept[-1])
        assert torch.equal(array[:], torch.stack(kept))


@pytest.mark.parametrize("codec", CODECS)
def test_swapped_and_flattened_as_rollouts_are(codec: str) -> None:
    twins = Twins(codec, 20, Stacked(3, 4, (1, 20, 20)))
    twins.add(20)
    array, plain = twins.arrays[0], twins.plains[0]
    flat = array.swapaxes(0, 1).reshape(60, 4, 20, 20)
    expected = plain.swapaxes(0, 1).reshape(60, 4, 20, 20)
    assert flat.shape == expected.shape
    order = torch.randperm(60)
    assert torch.equal(flat[order], expected[order])
    before = expected.clone()
    twins.add(40)
    assert torch.equal(flat[:], before)  # it is not a view
    twins.check()


def test_items_of_several_steps_in_one_batch() -> None:
    stream = Stacked(2, 4, (1, 20, 20))
    steps = torch.from_numpy(np.stack([step.obs for step in stream.steps(150)]))
    together, one_by_one = (DeviceArray(steps.shape, item_ndim=3, codec="delta") for _ in range(2))
    together[...] = steps
    for row in range(150):
        one_by_one[row] = steps[row]
    assert torch.equal(together[:], steps)
    assert torch.equal(one_by_one[:], steps)
    assert together.nbytes_stored < 2 * one_by_one.nbytes_stored


@pytest.mark.parametrize("codec", ["delta", "rle", "gzip3"])
def test_frames_are_stored_once(codec: str) -> None:
    twins = Twins(codec, 200, Stacked(2, 4, (1, 40, 40), "noise", episode=1000))
    twins.add(200)
    store = twins.arrays[0].store
    assert store is not None
    sweep(store)
    table = store.frames.table
    assert len(table.words) - table.free <= 2 * (200 + 8)  # a frame for each step, and a few where lanes begin
    assert store.nbytes < 1.5 * 2 * 208 * 1600 + 256 * 1024


def test_bad_keys_and_values_say_what_to_do() -> None:
    array = DeviceArray((4, 2, 10, 10), torch.uint8, item_ndim=2)
    array[0] = torch.ones(2, 10, 10, dtype=torch.uint8)
    with pytest.raises(ca.UnsupportedOperationError, match="integers"):
        array[np.array([True, False, True, False])]
    with pytest.raises(ca.UnsupportedOperationError, match="written whole"):
        array[0, 0, 3] = torch.ones(10, dtype=torch.uint8)
    with pytest.raises(ca.LossyWriteError, match="does not fit dtype uint8"):
        array[0] = torch.full((2, 10, 10), 300)
    with pytest.raises(ValueError, match="broadcast"):
        array[0] = torch.ones(3, 10, 10, dtype=torch.uint8)
    with pytest.raises(IndexError):
        array[9]
    with pytest.raises(IndexError):
        array[0, 0, 0, 0, 0]
    with pytest.raises(ca.UnsupportedOperationError, match="delta or zstd"):
        DeviceArray((4, 2, 10, 10), codec="delta-zstd")
    with pytest.raises(ValueError, match="not one for items"):
        DeviceArray((4, 2, 10), torch.uint8, item_ndim=1, store=array.store)
    with pytest.raises(TypeError, match="no dtype"):
        DeviceArray((4, 2), np.dtype("U3"))
    assert array[0].all()


def test_threads_write_and_read_one_store() -> None:
    twins = [Twins("delta", 30, Stacked(2, 4, (1, 20, 20), seed=k)) for k in range(2)]
    shared = Twins("delta", 30, Stacked(2, 4, (1, 20, 20), seed=9))
    wrong: list[int] = []

    def work(own: Twins) -> None:
        for _ in range(15):
            own.add(5)
            try:
                own.check()
                got = shared.arrays[0][:]
                if not torch.equal(got, expected):
                    wrong.append(0)
            except AssertionError:
                wrong.append(1)

    shared.add(30)
    expected = shared.plains[0].clone()
    threads = [threading.Thread(target=work, args=(own,)) for own in twins]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
@pytest.mark.parametrize("codec", ["delta", "rle"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_write_that_fails_changes_nothing(fault: Any, codec: str, when: str) -> None:
    where, name = fault
    real = getattr(where, name)
    twins = Twins(codec, 30, Stacked(3, 4, (1, 20, 20), episode=9))
    twins.add(5)
    for nth in (0, 1, 3, 9, 20):
        calls = 0

        def failing(*args: Any, nth: int = nth, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == nth + 1 and when == "before":
                raise KeyboardInterrupt
            done = real(*args, **options)
            if calls == nth + 1:
                raise KeyboardInterrupt
            return done

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(where, name, failing)
            for _ in range(40):
                step, row = twins.stream.step(), twins.at
                for array, plain, items in zip(twins.arrays, twins.plains, step[:2], strict=True):
                    try:
                        array[row] = items
                    except KeyboardInterrupt:
                        got = array[row]
                        assert torch.equal(got, plain[row]) or torch.equal(got, torch.from_numpy(items))
                        array[row] = items
                    plain[row] = torch.from_numpy(items)
                twins.at = (row + 1) % twins.rows
        twins.check()


def test_a_state_can_be_gone_back_to() -> None:
    twins = Twins("delta", 60, Stacked(2, 4, (1, 20, 20)))
    twins.add(30)
    array, kept = twins.arrays[0], twins.plains[0].clone()
    state = array.state_dict()
    for more in range(1, 8):
        twins.add(more)
        array.load_state_dict(state)
        assert torch.equal(array[:], kept)
        twins.plains[0].copy_(kept)
        twins.plains[1].zero_()
        twins.add(40)
        twins.check()


@pytest.mark.parametrize("codec", CODECS)
def test_inference_mode_leaves_no_trace(codec: str) -> None:
    twins = Twins(codec, 40, Stacked(2, 4, (1, 20, 20)))
    with torch.inference_mode():
        twins.add(25)
        twins.arrays[0][:]
        if twins.arrays[0].store is not None:
            sweep(twins.arrays[0].store)
    twins.plains = [plain.clone() for plain in twins.plains]
    twins.add(60)
    twins.check()


def test_keys_of_three_axes_mean_what_they_do_to_torch() -> None:
    array = DeviceArray((2, 3, 4, 100), torch.uint8, item_ndim=1)
    plain = torch.zeros(array.shape, dtype=torch.uint8)
    rng = np.random.default_rng(0)
    keys: list[Any] = [(0, slice(None), [1, 1, 2]), ([0, 1, 1], slice(None), [1, 1, 2]), (slice(None), [2, 2, 0], 3)]
    for key in keys:
        tensors = tuple(torch.tensor(part) if isinstance(part, list) else part for part in key)
        value = torch.from_numpy(rng.integers(0, 255, plain[tensors].shape).astype(np.uint8))
        array[key] = value
        plain[tensors] = value  # on the host the last stays
        assert torch.equal(array[:], plain)


def test_odd_values() -> None:
    array = DeviceArray((6, 2, 10, 13), torch.uint8, item_ndim=2)
    image = np.arange(260, dtype=np.uint8).reshape(2, 10, 13)
    array[0] = image[:, ::-1]
    array[1] = torch.from_numpy(np.arange(263, dtype=np.uint8))[3:].view(2, 10, 13)
    assert np.array_equal(array[0].numpy(), image[:, ::-1])
    assert array[1, 0, 0, 0] == 3
    assert array[2:2].shape == (0, 2, 10, 13)
    assert array[[]].shape == (0, 2, 10, 13)
    array[[]] = torch.zeros(0, 2, 10, 13, dtype=torch.uint8)
    with pytest.raises(ca.LossyWriteError):
        array[0] = torch.full((2, 10, 13), float("nan"))
    floats = DeviceArray((6, 40), torch.float32)
    floats[0] = torch.full((40,), float("nan"), dtype=torch.float64, requires_grad=True)
    assert floats[0].isnan().all()
    turned = DeviceArray((6, 40), torch.complex64)
    turned[0] = torch.full((40,), 1 + 2j).conj()
    assert (turned[0] == 1 - 2j).all()
    none = DeviceArray((4, 0, 100), torch.uint8, item_ndim=1)
    none[0] = torch.zeros(0, 100, dtype=torch.uint8)
    assert none[:].shape == (4, 0, 100)
    small = DeviceArray((6, 3), torch.uint16)
    small.compact()  # there is nothing to free
    small[np.array([1, 1])] = torch.tensor([[1, 2, 3], [4, 5, 6]], dtype=torch.uint16)
    assert small[1].tolist() == [4, 5, 6]


def test_copies_are_apart() -> None:
    array = DeviceArray((6, 2, 100), torch.uint8, item_ndim=1)
    array[0] = torch.ones(2, 100, dtype=torch.uint8)
    others = [array.reshape(12, 100), array.swapaxes(0, 1), copy.copy(array)]
    array[0] = torch.full((2, 100), 7, dtype=torch.uint8)
    for other in others:
        assert int(other[:].max()) == 1


@pytest.mark.parametrize("codec", ["delta", "none"])
def test_values_of_all_kinds(codec: str) -> None:
    plain = np.random.default_rng(0).integers(0, 255, (6, 2, 4, 12, 12)).astype(np.uint8)
    array = DeviceArray(plain.shape, item_ndim=3, codec=codec)
    array[:] = plain

    class Lazy:
        """What reads from the same store when it is asked for what it is."""

        def __init__(self, key: Any) -> None:
            self._key = key

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return array[self._key].numpy()

    values = [
        (ca.compress(plain, item_ndim=3), ca.compress(plain[0], item_ndim=3)),
        (array, array.reshape(12, 4, 12, 12).reshape(6, 2, 4, 12, 12)[0]),
        (Lazy(slice(None)), Lazy(0)),
        (plain.tolist(), torch.from_numpy(plain[0])),
    ]
    for whole, row in values:
        other = DeviceArray(plain.shape, item_ndim=3, **({"store": array.store} if array.store else {"codec": codec}))
        other[:] = whole
        assert np.array_equal(other[:].numpy(), plain)
        other[1] = row
        assert np.array_equal(other[1].numpy(), plain[0])
