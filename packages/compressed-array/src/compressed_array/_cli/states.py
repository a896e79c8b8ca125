"""What `torch.save` has written: the state of a device array, or of a buffer that has compressed arrays in it.

Such files are read with `weights_only=True`, so that nothing in them is run.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import compressed_array as ca
from compressed_array._array.file import MAGIC
from compressed_array._cli.failures import DataError, MissingLibraryError


def open_state(path: Path) -> tuple[str, dict[str, Any]]:
    """Returns what a file holds, in a few words, and its arrays by their names in the state."""
    try:
        import torch

        from compressed_array.torch import DeviceArray
        from compressed_array.torch._file import KEYS, errors_as_corrupt, read_file
    except ImportError:
        raise MissingLibraryError(f"{path}, which torch has saved,", "torch", "'compressed-array[torch]'") from None
    try:
        with errors_as_corrupt():
            state = read_file(path)
    except ca.CorruptPayloadError as error:
        if not isinstance(error.__cause__, pickle.UnpicklingError):
            raise
        # Whose own words are a page on how to trust a file.
        raise DataError(f"{path}: changed, or of what torch does not load with weights_only=True") from None
    if not isinstance(state, dict) or set(state) >= KEYS:
        return "device array", {"": DeviceArray.load(path, device="cpu")}
    arrays = _short(dict(_arrays("", state)))
    if all(isinstance(array, torch.Tensor) for array in arrays.values()):
        raise DataError(f"{path}: holds neither a device array nor a buffer with compressed arrays in it")
    return str(state.get("class", "state of a buffer")), arrays


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields all that is an array, by its way through the state."""
    import torch

    if isinstance(value, dict):
        for key, part in value.items():
            yield from _arrays(f"{name}.{key}" if name else str(key), part)
    elif isinstance(value, torch.Tensor):
        if value.ndim:
            yield name, _as_array(value)
    elif hasattr(value, "nbytes_stored"):
        yield name, value


def _short(arrays: dict[str, Any]) -> dict[str, Any]:
    """Returns the arrays by the last word of their names, where that tells them apart."""
    words = [name.rpartition(".")[2] for name in arrays]
    return dict(zip(words, arrays.values(), strict=True)) if len(set(words)) == len(words) else arrays


def _as_array(tensor: Any) -> Any:
    """Returns the array whose file a tensor of bytes is; any other tensor as it is."""
    if tensor.ndim == 1 and tensor.element_size() == 1:
        data = tensor.numpy().tobytes()
        if data.startswith(MAGIC):
            return ca.load(io.BytesIO(data))
    return tensor
