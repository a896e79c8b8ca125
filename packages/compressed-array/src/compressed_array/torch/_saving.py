"""What `DeviceArray` does with states: taking one, holding one, and making an array from one in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from compressed_array.codecs._description import describe
from compressed_array.errors import CorruptFileError, CorruptPayloadError
from compressed_array.torch._coders import DeviceCodec
from compressed_array.torch._dtypes import INTEGERS
from compressed_array.torch._file import ArrayKind, check_keys, errors_as_corrupt, read_file
from compressed_array.torch._state import checked_tensor, with_checksum
from compressed_array.torch._store import DeviceStore
from compressed_array.torch._sync import available_device, copy_tensors

if TYPE_CHECKING:
    from compressed_array.torch._array import DeviceArray

T = TypeVar("T", bound="DeviceArray")


def about(array: DeviceArray) -> dict[str, Any]:
    """Returns what has to be known of an array to make one like it."""
    return {
        "shape": list(array.shape),
        "item_ndim": len(array.item_shape),
        "dtype": str(array.dtype).removeprefix("torch."),
        "device": str(array.device),
        "codec": describe(array.codec),
        "heap_bytes": None if array.store is None else array.store.heap_bytes,
    }


def state_of(array: DeviceArray) -> dict[str, Any]:
    """Returns all that an array holds, in tensors of its own, with a checksum."""
    kind = about(array)
    if array.store is None:
        state = copy_tensors({"about": kind, "cells": array._cells.numbers, "dense": array._dense, "store": None})
    else:
        with array.store.lock, array.store.guard:
            store = array.store.state()  # first: it gives pending steps their numbers
            state = copy_tensors({"about": kind, "cells": array._cells.numbers, "dense": None, "store": store})
    return with_checksum(state)


def load_state(array: DeviceArray, state: Any) -> None:
    """Puts a state into an array, after checking it."""
    with errors_as_corrupt():
        check_keys(state)
        mine = about(array)
        theirs = state.get("about", mine)  # which states of earlier versions do not have
        others = [key for key in ("shape", "item_ndim", "dtype", "codec") if theirs[key] != mine[key]]
    if others:
        raise ValueError(f"this is the state of an array of another {others[0]}; here it is {mine[others[0]]}")
    with errors_as_corrupt():
        _hold(array, state)


def load_array(make: type[T], path: str | Path, device: torch.device | str | None) -> T:
    """Returns an array from a file, on `device`, or the one it was on, or the host where there is no such device."""
    try:
        with errors_as_corrupt():
            state = read_file(path)
            check_keys(state)
            return _new_array(make, state, device)
    except CorruptPayloadError as error:
        raise CorruptFileError(f"{path}: {error}") from error


def _new_array(make: type[T], state: dict[str, Any], device: torch.device | str | None) -> T:
    kind = ArrayKind.of(state["about"], is_dense=state["store"] is None)
    on, grid_axes = available_device(device or kind.device), len(kind.shape) - kind.item_ndim
    # Before any memory is taken: that it is no more than what came with it.
    store = None
    if state["store"] is None:
        checked_tensor(state["dense"], INTEGERS.get(kind.dtype.itemsize, kind.dtype), kind.shape)
    else:
        checked_tensor(state["cells"], torch.int32, kind.shape[:grid_axes])
        store = DeviceStore(kind.shape[grid_axes:], kind.dtype, DeviceCodec(kind.codec), on, kind.heap_bytes)
    codec = "none" if store is None else "auto"
    array = make(kind.shape, kind.dtype, device=on, item_ndim=kind.item_ndim, codec=codec, store=store)
    _hold(array, state)
    return array


def _hold(array: DeviceArray, state: dict[str, Any]) -> None:
    store = array.store
    if store is None:
        held = checked_tensor(state["dense"], array._stored_dtype, tuple(array.shape))
        array._dense = held.to(array.device, copy=True)
        return
    with store.lock, store.guard:
        others = [(cells, torch.zeros_like(cells.numbers)) for cells in store.holders if cells is not array._cells]
        store.restore(state["store"], [*others, (array._cells, state["cells"])])
