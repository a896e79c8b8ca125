"""How often the host waits for the device, and that no operation mixes the two: shown without a GPU.

Every wait goes by `_sync.fetch` or `to_host`. They are counted here; that there are no others is shown by running the
same code on tensors without data, those of the device "meta": whatever needs data fails there. The arguments of every
operation on the way are looked at, and only copies may have some on one device and some on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import compressed_array as ca
from compressed_array.codecs.delta import Delta
from compressed_array.torch import DeviceArray, _frames, _lanes, _undecided
from compressed_array.torch._coders import delta, host_codec, runs
from core_helpers.streams import Stacked

USERS = {"fetch": (delta, _frames, host_codec, runs), "to_host": (host_codec, _undecided)}
CODECS = ["delta", "rle", "gzip3", *(["zstd-3"] if ca.has_zstd() else [])]
# Operations whose result depends on data, so that a GPU has to be waited for.
WAITING = (
    "nonzero.",
    "_local_scalar_dense",
    "masked_select",
    "_unique",
    "unique_",
    "repeat_interleave.Tensor",
    "equal.",
)


@contextmanager
def patched(make: Callable[[Any], Any]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, modules in USERS.items():
            for module in modules:
                patch.setattr(module, name, make(getattr(module, name)))
        yield


class Waits:
    """Counts what is fetched, and keeps it."""

    def __init__(self) -> None:
        self.fetched: list[Any] = []

    def counting(self, real: Any) -> Any:
        def fetch(*parts: Any) -> Any:
            self.fetched.append(real(*parts))
            return self.fetched[-1]

        return fetch

    def replaying(self, _: Any) -> Any:
        return lambda *parts: self.fetched.pop(0)


class Dispatched(TorchDispatchMode):
    """Notes every operation."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).removeprefix("aten.")
        if name == "repeat_interleave.Tensor" and (kwargs or {}).get("output_size") is not None:
            name = "repeat_interleave with a size"
        self.names.append(name)
        return func(*args, **(kwargs or {}))

    @property
    def waiting(self) -> list[str]:
        return [name for name in self.names if name.startswith(WAITING)]


def come_from(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have items that come from a device looked at there, where that device is the host as well."""
    if source == "device":
        monkeypatch.setattr(_lanes, "is_on_host", lambda items: isinstance(items, np.ndarray))


class OneDevice(TorchDispatchMode):
    """Refuses operations on tensors of two devices, other than copies from one to the other."""

    def __init__(self) -> None:
        super().__init__()
        self.on_meta = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [part for part in tree_leaves((args, kwargs)) if isinstance(part, torch.Tensor)]
        devices = {tensor.device.type for tensor in tensors}
        self.on_meta += "meta" in devices
        assert len(devices) < 2 or str(func) == "aten.copy_.default", f"{func} of tensors on {devices}"
        return func(*args, **(kwargs or {}))


def ring(codec: str, device: str = "cpu") -> tuple[Any, Any]:
    obs = DeviceArray((40, 3, 4, 16, 16), torch.uint8, item_ndim=3, codec=codec, device=device)
    return obs, DeviceArray(obs.shape, torch.uint8, item_ndim=3, store=obs.store, device=device)


def operations(obs: Any, after: Any, batch: int, source: str = "host") -> Iterator[Callable[[], Any]]:
    """Writes and reads of all kinds, one by one, of items that are on the host or on the device."""
    device = obs.device
    given = device if source == "device" else torch.device("cpu")
    rng = np.random.default_rng(0)
    for t, step in enumerate(Stacked(3, 4, (1, 16, 16), episode=9).steps(130)):
        yield lambda t=t, step=step: obs.__setitem__(t % 40, torch.from_numpy(step.obs).to(given))
        yield lambda t=t, step=step: after.__setitem__(t % 40, step.next_obs)  # from the host in any case
        if t % 10 == 9:
            rows, lanes = rng.integers(0, 40, batch), rng.integers(0, 3, batch)
            yield lambda rows=rows, lanes=lanes: obs[rows, lanes]
            yield lambda rows=rows, lanes=lanes: after[
                torch.from_numpy(rows).to(device), torch.from_numpy(lanes).to(device)
            ]
    noise = torch.from_numpy(rng.integers(0, 256, (20, 3, 4, 16, 16)).astype(np.uint8))
    yield lambda: obs.__setitem__(slice(5, 25), noise.to(given))
    yield lambda: obs[:]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("batch", [1, 32, 300])
@pytest.mark.parametrize("source", ["host", "device"])
def test_a_batch_waits_twice_at_most(codec: str, batch: int, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    come_from(source, monkeypatch)
    obs, after = ring(codec)
    for operation in operations(obs, after, batch, source):
        waits, seen = Waits(), Dispatched()
        with patched(waits.counting), seen:
            operation()
        assert len(waits.fetched) <= 2
        assert not seen.waiting


def test_steps_larger_than_what_can_wait_wait_twice_at_most() -> None:
    """All lanes begin anew, in the middle of steps with little that is new."""
    array, rng = DeviceArray((9, 40, 8, 16, 16), item_ndim=3, codec=Delta(frame_width=1)), np.random.default_rng(0)
    frames = rng.integers(0, 255, (40, 8, 16, 16)).astype(np.uint8)
    for t in range(200):
        frames = np.concatenate([frames[:, 1:], rng.integers(0, 255, (40, 1, 16, 16)).astype(np.uint8)], 1)
        if t % 17 == 16:
            frames = rng.integers(0, 255, frames.shape).astype(np.uint8)
        waits = Waits()
        with patched(waits.counting), pytest.MonkeyPatch.context() as patch:
            patch.setattr(delta, "KEY_EVERY", 4)  # of which there is only room for four steps
            array[t % 9] = frames
        assert len(waits.fetched) <= 2
        assert t % 7 or np.array_equal(array[t % 9].numpy(), frames)


@pytest.mark.parametrize("source", ["host", "device"])
def test_arrays_of_more_and_more_lanes_wait_twice_at_most(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    come_from(source, monkeypatch)
    first, rng = (
        DeviceArray((9, 1, 4, 16, 16), torch.uint8, item_ndim=3, codec=Delta(frame_width=1)),
        np.random.default_rng(0),
    )
    arrays = [first, *(DeviceArray((9, n, 4, 16, 16), item_ndim=3, store=first.store) for n in (3, 17, 40))]
    for array in arrays:
        frames = rng.integers(0, 255, (60, array.shape[1], 16, 16)).astype(np.uint8)
        for t in range(50):
            items = torch.from_numpy(np.ascontiguousarray(frames[t : t + 4].swapaxes(0, 1)))
            waits = Waits()
            with patched(waits.counting):
                array[t % 9] = items
            assert len(waits.fetched) <= 2
            assert t % 7 or torch.equal(array[t % 9], items)


@pytest.mark.parametrize("codec", ["delta", "rle"])
def test_a_read_waits_once(codec: str) -> None:
    obs, after = ring(codec)
    for operation in operations(obs, after, 8):
        operation()
    for key in (3, slice(None), (np.arange(30), np.zeros(30, int))):
        waits = Waits()
        with patched(waits.counting):
            obs[key]
        assert len(waits.fetched) == 1


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("source", ["host", "device"])
def test_no_operation_mixes_devices_or_waits_unseen(codec: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    come_from(source, monkeypatch)
    waits = Waits()
    with patched(waits.counting):
        for operation in operations(*ring(codec), 32, source):
            operation()
    with patched(waits.replaying), OneDevice() as seen:
        obs, after = ring(codec, "meta")
        for operation in operations(obs, after, 32, source):
            read = operation()
            assert read is None or read.device.type == "meta"
    assert not waits.fetched
    assert seen.on_meta > 1000


def test_how_many_kernels_a_batch_takes() -> None:
    """It depends on how many segments the heap has, not on the size of the batch."""
    obs, after = ring("delta")
    for operation in operations(obs, after, 8):
        operation()
    counts = []
    for batch in (8, 256):
        with Dispatched() as seen:
            obs[np.arange(batch) % 40, np.arange(batch) % 3]
        counts.append(len(seen.names))
    assert counts[0] == counts[1]
    assert counts[0] < 120
