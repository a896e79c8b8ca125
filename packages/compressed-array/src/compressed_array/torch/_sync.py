"""Between host and device: the one place where the host waits for a device, and what goes from one to the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import torch

P = ParamSpec("P")
T = TypeVar("T")
Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


def fetch(*numbers: torch.Tensor) -> list[list[int]]:
    """Returns what these tensors of integers hold, in one transfer.

    On a GPU this waits for all that was asked of it before.
    """
    if len(numbers) == 1:
        return [numbers[0].reshape(-1).tolist()]
    on = next((part.device for part in numbers if part.device.type != "cpu"), numbers[0].device)
    flat = [part.reshape(-1).to(on, torch.int64, non_blocking=True) for part in numbers]
    together = torch.cat(flat).tolist()
    parts, at = [], 0
    for part in flat:
        parts.append(together[at : at + part.numel()])
        at += part.numel()
    return parts


def to_host(data: torch.Tensor) -> npt.NDArray[np.uint8]:
    """Returns bytes of a device as an array of the host; waits like `fetch`."""
    return on_host(data).numpy()


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor on the host, itself if it is there; waits like `fetch`."""
    return tensor.cpu()


def on_device(numbers: Array, device: torch.device) -> torch.Tensor:
    """Returns numbers of the host as a tensor on a device, without waiting for it."""
    return torch.from_numpy(np.ascontiguousarray(numbers)).to(device, non_blocking=True)


def device_with_index(device: torch.device | str) -> torch.device:
    """Returns a device with its index, as tensors on it have: "cuda:0" for "cuda"."""
    return torch.empty(0, device=device).device


def available_device(device: torch.device | str) -> torch.device:
    """Returns the device, or the host where there is no such device or it holds no data ("meta")."""
    try:
        found = device_with_index(device)
    except (RuntimeError, AssertionError):
        return torch.device("cpu")
    return torch.device("cpu") if found.type == "meta" else found


def copy_to_host(state: Any) -> Any:
    """Returns a state with tensors of its own on the host, as others might change before they are pickled; waits."""
    return map_tensors(state, lambda tensor: tensor.to("cpu", copy=True))


def copy_tensors(state: Any) -> Any:
    """Returns a state with tensors of its own, where they were."""
    return map_tensors(state, torch.Tensor.clone)


def map_tensors(state: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Returns a state, which is dicts and lists, with each of its tensors replaced by what `change` makes of it."""
    if isinstance(state, torch.Tensor):
        return change(state)
    if isinstance(state, dict):
        return {name: map_tensors(part, change) for name, part in state.items()}
    return [map_tensors(part, change) for part in state] if isinstance(state, list) else state


def storage_nbytes(*tensors: torch.Tensor) -> int:
    """Returns the size of the memory behind tensors, of which several may share some."""
    storages = {storage.data_ptr(): storage.nbytes() for storage in (t.untyped_storage() for t in tensors)}
    return sum(storages.values())


def outside_inference_mode(method: Callable[P, T]) -> Callable[P, T]:
    """Makes a method run outside of inference mode, so that what it makes can be changed outside of it."""

    @wraps(method)
    def run(*args: P.args, **options: P.kwargs) -> T:
        if not torch.is_inference_mode_enabled():
            return method(*args, **options)
        with torch.inference_mode(False):
            return method(*args, **options)

    return run
