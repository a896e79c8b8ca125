"""`CompressedStorage`: a storage for TorchRL's replay buffers that keeps what is large compressed.

It is a `TensorStorage`, whose own methods run unchanged: what it holds is a TensorDict, or whatever else was added, of
tensors that are views of plain memory, or decode what is read from them. Overridden is only how all keys are written or
read at once.
"""

# TorchRL ships no types, and need not be there:
# mypy: disable-error-code="import-not-found,import-untyped"
# mypy: disallow-subclassing-any=False

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from math import prod
from multiprocessing.context import get_spawning_popen
from pathlib import Path
from typing import Any

import torch

try:
    from torchrl.data.replay_buffers.checkpointers import StorageCheckpointerBase
    from torchrl.data.replay_buffers.storages import TensorStorage
except ImportError as error:
    raise ImportError(
        "compressed_array_torch.torchrl needs TorchRL: pip install 'compressed-array-torch[torchrl]'"
    ) from error

from compressed_array.errors import UnsupportedOperationError
from compressed_array.usage import MemoryUsage
from compressed_array_torch._items import CPU, Delivery
from compressed_array_torch.errors import BufferOptionError, BufferStateError
from compressed_array_torch.fields import Codecs
from compressed_array_torch.torchrl.contents import Contents, Place, Plan, rows_for
from compressed_array_torch.torchrl.decoding import axes_of, positions_of
from compressed_array_torch.torchrl.structure import first_row, stacked

__all__ = ["CompressedStorage", "CompressedStorageCheckpointer"]

FILE = "compressed_storage.pt"


class CompressedStorageCheckpointer(StorageCheckpointerBase):
    """Saves a compressed storage in one file, without decoding it."""

    def dumps(self, storage: CompressedStorage, path: Any) -> None:
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(storage.state_dict(), folder / f"{FILE}.new")
        (folder / f"{FILE}.new").replace(folder / FILE)

    def loads(self, storage: CompressedStorage, path: Any) -> None:
        file = Path(path) / FILE
        if not file.exists():
            raise BufferStateError(f"there is no {FILE} in {path}: no compressed storage was saved there")
        try:
            # Compressed items of a device are more than tensors.
            state = torch.load(file, map_location=CPU, weights_only=storage.device == CPU)
        except (EOFError, RuntimeError, pickle.UnpicklingError) as error:
            raise BufferStateError(f"{file} is damaged: {error}") from error
        storage.load_state_dict(state)

    def register_save_hook(self, hook: Any) -> None:
        raise UnsupportedOperationError("a compressed storage is saved as it is, without being decoded for a hook")

    register_load_hook = register_save_hook


class CompressedStorage(TensorStorage):
    """A storage of `max_size` items, for `ReplayBuffer` and `TensorDictReplayBuffer`.

    What is added first determines what items are made of: a TensorDict or tensorclass, a tensor, or a tree of them.
    Keys of up to 256 bytes are kept uncompressed, larger ones compressed. `x` and `("next", x)` of the same shape and
    dtype share what they have in common.

    Items that are read one by one, or by indices, are copies on `device`. A slice is a view, as of TorchRL's own
    storages: what is compressed in it is decoded when it is used, and what is written to it is stored.

    A pickled storage is a copy. It cannot be shared with other processes, and refuses to be.

    Args:
        max_size: How many items there is room for.
        codec: How keys of more than 256 bytes are kept: "auto" by what is best for them, None uncompressed, or a codec
            of `compressed_array` such as "delta", "delta-zstd" or "zstd-3"; a mapping has one for each key, which is a
            tuple, or a string with dots between nested names.
        device: Where batches go.
        store_device: Where items are kept and indices drawn; by default the host.
        ndim: How many axes of the data count items: the first is time, the others count streams.

    >>> from tensordict import TensorDict
    >>> from torchrl.data import ReplayBuffer
    >>> buffer = ReplayBuffer(storage=CompressedStorage(1000), batch_size=16)
    >>> _ = buffer.extend(TensorDict({"pixels": torch.ones(8, 3, 84, 84, dtype=torch.uint8)}, batch_size=[8]))
    >>> buffer.sample()["pixels"].shape
    torch.Size([16, 3, 84, 84])
    """

    _default_checkpointer = CompressedStorageCheckpointer
    _len: int  # a property of TorchRL's

    def __init__(
        self,
        max_size: int,
        *,
        codec: Any = "auto",
        device: torch.device | str = "cpu",
        store_device: torch.device | str | None = None,
        ndim: int = 1,
    ) -> None:
        if int(max_size) < 1 or int(ndim) < 1:
            raise BufferOptionError(f"max_size and ndim are from 1 on, not {max_size} and {ndim}")
        if isinstance(codec, Mapping):
            codec = {".".join(key) if isinstance(key, tuple) else key: word for key, word in codec.items()}
        Codecs(codec, list(codec) if isinstance(codec, dict) else [])  # refuses what is no codec
        # "compilable" is TorchRL's name for counters that belong to this process alone: by its other counters, forked
        # processes would learn of items that they do not have.
        super().__init__(None, max_size, device=torch.device(store_device or CPU), ndim=int(ndim), compilable=True)
        self._place = Place(codec, self.device, Delivery(torch.device(device)))
        self._contents: Contents | None = None
        self._process = os.getpid()

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Writes items; what does not fit is refused before anything has changed.

        Args:
            cursor: Where the items go: an index, several of them, or a slice.
            data: The items: a TensorDict or tensorclass, a tensor, a tree of them, or a list of such items.
            set_cursor: Whether this is where the storage was written last, and its length goes up to there.
        """
        if os.getpid() != self._process:
            raise UnsupportedOperationError(
                f"this storage is one of process {self._process}, which would not see what another one writes: send "
                "the data there, or write to a copy, pickle.loads(pickle.dumps(storage))"
            )
        if isinstance(data, list):
            data = stacked(data)
        is_row = _is_index(cursor)
        contents = self._contents or self._new(Plan.of(data if is_row else first_row(data), self.max_size, self.ndim))
        rows, lanes = contents.plan.rows, contents.plan.lanes
        positions = positions_of(int(cursor) if is_row else cursor, range(rows), lanes)
        contents.write(positions, data, is_row=is_row, held=len(self))
        if self._contents is None:
            self._use(contents)
        if set_cursor and positions.numel():
            self._set_last_cursor(int(positions.reshape(-1)[-1]) // prod(lanes))
            self._len = min(self._len + positions.numel(), self.max_size)
        self._bump_mutation_revision()

    def get(self, index: Any) -> Any:
        """Returns items: views if they are a slice, or else copies on `device`.

        Args:
            index: Which items: an index, several of them, a slice, or a tuple of these for several axes.
        """
        parts = index if isinstance(index, tuple) else (index,)
        if self._contents is None or any(part is Ellipsis or isinstance(part, slice) for part in parts):
            return super().get(index)
        positions = positions_of(index, range(self._len_along_dim0), self._contents.plan.lanes)
        return self._contents.read(positions, are_rows=axes_of(parts) == 1)

    def _init(self, row: Any) -> None:
        """Makes room for rows like this one."""
        self._use(self._new(Plan.of(row, self.max_size, self.ndim)))

    def _new(self, plan: Plan) -> Contents:
        return Contents(plan, self._place)

    def _use(self, contents: Contents) -> None:
        self._contents, self._storage, self.initialized = contents, contents.tensors(), True
        self.max_size, self._total_shape_value = contents.plan.shape.numel(), contents.plan.shape

    def _empty(self) -> None:
        super()._empty()
        if self._contents is not None:
            self._contents.columns.clear()

    def memory_usage(self) -> MemoryUsage:
        """Returns how much memory is held now, and how much a storage that compresses nothing would hold."""
        if self._contents is None:
            return MemoryUsage(0, self.max_size, {}, 0)
        return self._contents.columns.usage(self._len_along_dim0, len(self), self.max_size)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.memory_usage()}>"

    def state_dict(self) -> dict[str, Any]:
        """Returns all that is held, in tensors and plain values of its own."""
        held = {} if self._contents is None else self._contents.state_dict()
        return {"class": type(self).__name__, "_len": len(self), "initialized": self.initialized, **held}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over the state of a storage made with the same arguments.

        Args:
            state_dict: What `state_dict` returned. Any other is refused and changes nothing.
        """
        if state_dict.get("class") != type(self).__name__:
            raise BufferStateError(f"this is not the state of a {type(self).__name__}")
        contents = self._contents
        try:
            count, is_full = int(state_dict["_len"]), bool(state_dict["initialized"])
            if is_full:
                contents = contents or self._new(self._plan_of(state_dict))
                take = contents.prepare_load(state_dict)
        except BufferStateError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise BufferStateError(f"the state is damaged, or of another storage: {error}") from error
        if not 0 <= count <= (contents.plan.shape.numel() if contents is not None and is_full else 0):
            raise BufferStateError(f"the state is damaged: it says that it holds {count} items")
        if contents is None or not is_full:
            self._empty()
            return
        take()
        if self._contents is None:
            self._use(contents)
        self._len = count
        self._bump_mutation_revision()

    def _plan_of(self, state: Mapping[str, Any]) -> Plan:
        """Returns what the rows of a state are made of, if this storage has as many; raises otherwise."""
        plan = Plan.described(state)
        if plan.rows != rows_for(self.max_size, plan.lanes) or len(plan.lanes) != self.ndim - 1:
            raise BufferStateError(
                f"this is the state of a storage of shape {tuple(plan.shape)}; here max_size is {self.max_size} and "
                f"ndim {self.ndim}"
            )
        return plan

    def __getstate__(self) -> dict[str, Any]:
        if get_spawning_popen() is not None:
            raise UnsupportedOperationError(
                "a compressed storage cannot be shared with a process that is started: have that send its data to the "
                "process with the storage; what is pickled for it is a copy"
            )
        state: dict[str, Any] = super().__getstate__()
        held: Contents | None = state.pop("_contents")
        if held is not None:
            state["contents__context"] = held.plan, held.state_dict()
        return state | {"_storage": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        held = state.pop("contents__context", None)
        super().__setstate__(state)
        self._contents, self._process = None, os.getpid()
        if held is not None:
            contents = self._new(held[0])
            contents.prepare_load(held[1])()
            self._use(contents)


def _is_index(cursor: Any) -> bool:
    """Whether a cursor names one row."""
    if isinstance(cursor, torch.Tensor):
        return cursor.ndim == 0 and not cursor.is_floating_point() and cursor.dtype != torch.bool
    return hasattr(cursor, "__index__") and not isinstance(cursor, bool) and getattr(cursor, "ndim", 0) == 0
