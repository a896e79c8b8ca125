"""Arrays on a device go to pickles, state dicts and files, and come back, on another device if need be."""

from __future__ import annotations

import copy
import doctest
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import compressed_array.torch as device
from compressed_array.torch import DeviceArray, estimate_total_heap_bytes, numpy_dtype_to_torch, torch_dtype_to_numpy
from compressed_array.torch import find_gpu_buffer_dtypes as find_dtypes
from core_helpers.streams import Stacked
from device_helpers.device_streams import CODECS, Twins

WAYS: dict[str, Any] = {
    "pickle": lambda arrays: pickle.loads(pickle.dumps(arrays)),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("steps", [0, 1, 2, 70])
@pytest.mark.parametrize("how", WAYS)
def test_pickles_go_on_where_they_were(codec: str, steps: int, how: str) -> None:
    twins = Twins(codec, 30, Stacked(2, 4, (1, 20, 20)))
    twins.add(steps)
    old = twins.arrays
    twins.arrays = WAYS[how](old)
    assert (twins.arrays[0].store is twins.arrays[1].store) or codec == "none"
    assert codec == "none" or twins.arrays[0].store is not old[0].store
    twins.check()
    old[0][...] = torch.ones((), dtype=torch.uint8)
    twins.add(70)
    twins.check()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("steps", [1, 70])
def test_state_dicts_and_files(codec: str, steps: int, tmp_path: Path) -> None:
    twins = Twins(codec, 30, Stacked(2, 4, (1, 20, 20)))
    twins.add(steps)
    array, plain = twins.arrays[0], twins.plains[0]
    made = DeviceArray(array.shape, item_ndim=3, codec=codec)
    made[3] = torch.full((2, 4, 20, 20), 5, dtype=torch.uint8)
    made.load_state_dict(array.state_dict())
    assert torch.equal(made[:], plain)
    array.save(tmp_path / "array.pt")
    back = DeviceArray.load(tmp_path / "array.pt", device="cpu")
    assert torch.equal(back[:], plain)
    assert repr(back.codec) == repr(array.codec)
    twins.add(40)
    assert torch.equal(made[:], back[:])
    made[0] = torch.full((2, 4, 20, 20), 5, dtype=torch.uint8)
    assert (made[0] == 5).all()


def test_a_device_that_is_not_there_is_replaced_by_the_host() -> None:
    array = DeviceArray((4, 2, 10, 10), item_ndim=2, codec="none")
    array[0] = torch.ones(2, 10, 10, dtype=torch.uint8)
    state = array.__getstate__()
    state["about"]["device"] = "cuda:7"
    back = DeviceArray.__new__(DeviceArray)
    back.__setstate__(state)
    assert back.device.type == "cpu"
    assert back[0].all()


def test_states_of_other_arrays_are_refused() -> None:
    array = DeviceArray((4, 2, 10, 10), item_ndim=2)
    with pytest.raises(ValueError, match="another codec"):
        array.load_state_dict(DeviceArray((4, 2, 10, 10), item_ndim=2, codec="none").state_dict())
    with pytest.raises(ValueError, match="another shape"):
        array.load_state_dict(DeviceArray((5, 2, 10, 10), item_ndim=2).state_dict())


def test_payloads_of_the_host_are_those_of_the_device() -> None:
    """What the host's codec writes is what lies in the heap, so that either reads the other's."""
    import compressed_array as ca

    codec = ca.get_codec("gzip3")
    array = DeviceArray((80, 30, 30), torch.uint8, codec="gzip3")
    items = torch.from_numpy(np.random.default_rng(0).integers(0, 3, (80, 30, 30)).astype(np.uint8))
    array[...] = items  # enough to know that they are no stacks
    coder, table = array.store.frames.coder, array.store.frames.table  # type: ignore[union-attr]
    payloads = coder.payloads._segments[0].columns[0].numpy()
    for (_, _, _, start, length, _), item in zip(table.words[array.cells.long()].tolist(), items, strict=True):
        assert bytes(codec.decode(payloads[start : start + length])) == item.numpy().tobytes()


def test_dtypes_of_numpy_and_torch() -> None:
    for name in (
        "bool",
        "uint8",
        "int8",
        "int16",
        "uint16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
        "complex64",
    ):
        dtype = getattr(torch, name)
        assert numpy_dtype_to_torch(np.dtype(name)) is dtype
        assert torch_dtype_to_numpy(dtype) == np.dtype(name)
    with pytest.raises(TypeError, match="no dtype"):
        numpy_dtype_to_torch("U3")
    with pytest.raises(TypeError, match="no dtype"):
        torch_dtype_to_numpy(torch.bfloat16)


def test_dtypes_of_buffers() -> None:
    assert find_dtypes((4, 84, 84)) == {"elem_type": torch.uint8, "runs_type": torch.uint16}
    assert find_dtypes((4,), torch.float32, "rle") == {"elem_type": torch.float32, "runs_type": torch.uint16}
    assert find_dtypes((300, 300), compression_method="zstd")["runs_type"] == torch.uint32


def test_estimates_are_forecasts() -> None:
    raw = 1000 * 4 * 84 * 84
    assert 0 < estimate_total_heap_bytes(1000, 4 * 84 * 84, compression_method="delta") < raw / 10
    assert estimate_total_heap_bytes(1000, (4, 84, 84), compression_method="none") == raw
    assert estimate_total_heap_bytes(10, 100, torch.float32, compression_method="zstd-3") > 0
    twins = Twins("delta", 100, Stacked(2, 4, (1, 40, 40), "noise"))
    twins.add(50)
    measured = estimate_total_heap_bytes(200, (4, 40, 40), compression_method="delta", measured=twins.arrays[0])
    assert measured > 200 * 1600


def test_the_examples_run() -> None:
    for thing in (device, *(getattr(device, name) for name in device.__all__ if name not in {"TorchHeap", "has_zstd"})):
        examples = doctest.DocTestParser().get_doctest(thing.__doc__ or "", {}, thing.__name__, None, None)
        assert examples.examples
        assert not doctest.DocTestRunner().run(examples).failed


def test_the_public_names_are_these() -> None:
    names = [name for name in vars(device) if not name.startswith("_")]
    assert sorted(names) == [
        "DeviceArray",
        "TorchHeap",
        "cast_exactly",
        "estimate_total_heap_bytes",
        "find_gpu_buffer_dtypes",
        "has_zstd",
        "numpy_dtype_to_torch",
        "torch_dtype_to_numpy",
    ]
    assert all(getattr(device, name).__doc__ for name in names)
