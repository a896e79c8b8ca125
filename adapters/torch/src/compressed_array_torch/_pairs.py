"""Where observations and next observations are kept together, so that what both show is there once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch

import compressed_array as ca
from compressed_array.usage import PLAIN, KeyUsage, usage_of
from compressed_array_torch._buffer_lock import BufferLock
from compressed_array_torch._items import Delivery, DeviceItems, HostItems, check_tensor, decoded
from compressed_array_torch._row_gather import Source
from compressed_array_torch._saving import as_bytes, from_bytes
from compressed_array_torch._tensors import Array, Kind, as_bits, as_host, zeros
from compressed_array_torch.errors import BufferStateError

Tensors = tuple[torch.Tensor, torch.Tensor]


class Pair(Protocol):
    """What a buffer asks of the place where it keeps observations."""

    kind: Kind

    def prepare(self, value: Any) -> Any:
        """A step's items in the form that `write` takes them in; raises StepError if they are not of this field."""

    def write(self, row: int, items: Any, others: Any) -> None: ...

    def chunk(self, steps: int) -> tuple[Any, Any]:
        """The first steps, (steps or more, lanes, *shape), in a form that is pickled and `write_chunk` takes."""

    def write_chunk(self, rows: slice, chunk: Any, others: Any) -> None:
        """Write steps of such a chunk to as many rows."""

    def read(self, positions: torch.Tensor, others: torch.Tensor | None = None) -> Tensors:
        """Observations at `positions`, and next observations there or at `others`: other steps, or fewer."""

    def read_first(self, positions: torch.Tensor) -> torch.Tensor:
        """Observations alone."""

    def read_second(self, positions: torch.Tensor) -> torch.Tensor:
        """Next observations alone."""

    def clear(self) -> None: ...

    def usage(self, steps: int) -> KeyUsage: ...

    def state_dict(self) -> Any: ...

    def loading(self, state: Any) -> Callable[[], object]:
        """What makes this hold what a state does, once that is looked through and found to be of such a field."""


class DensePair:
    """Observations as they are; a next observation is the row after, unless the next step began with another one.

    There is a row of items more than of steps, for the last next observation. When a step comes whose observation
    differs from what is there, as after the end of an episode, what is there moves behind the rows, to a slot of its
    own. `_first` and `_second` say for each step where its two items are.
    """

    def __init__(
        self, kind: Kind, rows: int, device: torch.device, delivery: Delivery, lock: BufferLock | None = None
    ) -> None:
        self.kind, self._delivery, self._rows = kind, delivery, rows
        self._lock = lock or BufferLock()  # a reader must not look for an item while it moves
        lanes, count = kind.lanes, (rows + 1) * kind.lanes
        self._first_slot = count
        index = torch.int32 if 2 * count < 2**31 else torch.int64
        self._first, self._second = (zeros((rows * lanes,), index, device) for _ in range(2))
        self._lanes = torch.arange(lanes, dtype=index, device=device)
        # The host's memory costs nothing before it is written to; slots on a device are made as they are needed.
        self._slots_apart = device.type != "cpu"
        slots = 0 if self._slots_apart else rows * lanes
        self._items = zeros((count + slots, *kind.shape), kind.dtype, device)
        self._slots = self._items[count:]
        self._turn = 0  # the row of items that the next observations belong to
        self._last_row: int | None = None  # of the last step
        self._used, self._free = 0, list[int]()  # slots
        self._slots_of: dict[int, list[int]] = {}

    @property
    def sources(self) -> list[Source]:
        """Where observations are, and next observations, if each are in one place."""
        return [] if self._slots_apart else [(self._items, self._first), (self._items, self._second)]

    def prepare(self, value: Any) -> torch.Tensor:
        return self.kind.tensor(value)

    def write(self, row: int, items: torch.Tensor, others: torch.Tensor) -> None:
        lanes = self.kind.lanes
        items, others = items.to(self._items.device), others.to(self._items.device)
        self._go_back_to(row)
        here, there = self._turn * lanes, (self._turn + 1) % (self._rows + 1) * lanes
        with self._lock.held():
            self._free += self._slots_of.pop(row, [])
            if self._last_row is None:
                self._items[here : here + lanes] = items
            else:
                self._reconcile(self._last_row, here, items)
            self._items[there : there + lanes] = others
            mine = slice(row * lanes, (row + 1) * lanes)
            torch.add(self._lanes, here, out=self._first[mine])
            torch.add(self._lanes, there, out=self._second[mine])
            self._turn, self._last_row = there // lanes, row

    def _go_back_to(self, row: int) -> None:
        """Have this row be the next one, though it, and some after it, were written before: to no end, as it seems."""
        rows = self._rows
        too_many = ((0 if self._last_row is None else self._last_row + 1) - row) % rows
        if too_many:
            self._turn, self._last_row = (self._turn - too_many) % (rows + 1), (row - 1) % rows

    def chunk(self, steps: int) -> tuple[Array, Array]:
        held = slice(steps * self.kind.lanes)
        first, second = self._items.index_select(0, self._first[held]), self._after(self._second[held])
        return as_host(first).reshape(steps, *self.kind.full), as_host(second).reshape(steps, *self.kind.full)

    def write_chunk(self, rows: slice, chunk: Any, others: Any) -> None:
        write_by_turns(self, rows, chunk, others)

    def _reconcile(self, last_row: int, here: int, items: torch.Tensor) -> None:
        """Put items where the last step's next observations are, after moving those of them that differ."""
        lanes = self.kind.lanes
        held = self._items[here : here + lanes]
        if held.numel() == 0 or torch.equal(as_bits(held), as_bits(items)):
            return
        last = self._second[last_row * lanes : (last_row + 1) * lanes]
        differs = (as_bits(held) != as_bits(items)).reshape(lanes, -1).any(1)
        # An interrupted write may have moved some of them already.
        moved = torch.nonzero(differs & (last == self._lanes + here)).flatten()
        slots = self._take_slots(len(moved))
        self._slots_of.setdefault(last_row, []).extend(slots)
        at = torch.tensor(slots, dtype=torch.int64, device=moved.device)
        as_bits(self._slots)[at] = as_bits(held)[moved]
        last[moved] = (at + self._first_slot).to(last.dtype)
        self._items[here : here + lanes] = items

    def _take_slots(self, count: int) -> list[int]:
        fresh = count - len(self._free)
        if fresh > 0:
            self._free += range(self._used, self._used + fresh)
            self._used += fresh
        if self._used > len(self._slots):  # on a device
            more = max(self._used, 2 * len(self._slots), 64) - len(self._slots)
            self._slots = torch.cat([self._slots, self._slots.new_zeros((more, *self.kind.shape))])
        taken = self._free[:count]
        del self._free[:count]
        return taken

    def read(self, positions: torch.Tensor, others: torch.Tensor | None = None) -> Tensors:
        flat = positions.reshape(-1)
        after = flat if others is None else others.reshape(-1)
        with self._lock.held():
            first = self._items.index_select(0, self._first.index_select(0, flat))
            second = self._after(self._second.index_select(0, after))
        return self._delivered(first, positions), self._delivered(second, positions if others is None else others)

    def read_first(self, positions: torch.Tensor) -> torch.Tensor:
        with self._lock.held():
            at = self._first.index_select(0, positions.reshape(-1))
            return self._delivered(self._items.index_select(0, at), positions)

    def read_second(self, positions: torch.Tensor) -> torch.Tensor:
        with self._lock.held():
            at = self._second.index_select(0, positions.reshape(-1))
            return self._delivered(self._after(at), positions)

    def _after(self, at: torch.Tensor) -> torch.Tensor:
        """Next observations, of rows or of slots, without asking the device which."""
        if not self._slots_apart:
            return self._items.index_select(0, at)
        usual = self._items.index_select(0, at.clamp(max=self._first_slot - 1))
        if not len(self._slots):
            return usual
        moved = self._slots.index_select(0, (at - self._first_slot).clamp(min=0))
        return torch.where((at >= self._first_slot).reshape(-1, *[1] * len(self.kind.shape)), moved, usual)

    def _delivered(self, items: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self._delivery.tensor(items.view(*positions.shape, *self.kind.shape))

    def clear(self) -> None:
        self._first.zero_()
        self._second.zero_()
        self._turn, self._last_row = 0, None
        self._used, self._free, self._slots_of = 0, [], {}

    def usage(self, steps: int) -> KeyUsage:
        raw, lanes = 2 * steps * self.kind.lanes * self.kind.nbytes, self.kind.lanes
        slots = len(self._slots) if self._slots_apart else self._used
        held = (self._first_slot + slots) * self.kind.nbytes + 2 * self._first.nbytes
        moved = sum(map(len, self._slots_of.values()))
        return KeyUsage(raw, held, max(steps * lanes - moved - lanes, 0), PLAIN)

    def state_dict(self) -> Any:
        with self._lock.held():
            return {
                "items": self._items[: self._first_slot].clone(),
                "slots": self._slots[: self._used].clone(),
                "first": self._first.clone(),
                "second": self._second.clone(),
                "slots_of": {row: list(slots) for row, slots in self._slots_of.items()},
                "turn": self._turn,
                "last_row": self._last_row,
            }

    def loading(self, state: Any) -> Callable[[], object]:
        name, slots = self.kind.name, state["slots"]
        check_tensor(state["items"], self._items[: self._first_slot], name)
        for table in (state["first"], state["second"]):
            check_tensor(table, self._first, name)
        check_tensor(slots, self._items[: len(slots)], name)
        used = [slot for of_row in state["slots_of"].values() for slot in of_row]
        least, last = (int(bound) for bound in torch.aminmax(torch.cat([state["first"], state["second"]])))
        rows = state["turn"], -1 if state["last_row"] is None else state["last_row"]
        is_there = 0 <= least <= last < self._first_slot + len(slots) and set(used) <= set(range(len(slots)))
        if not is_there or not 0 <= rows[0] <= self._rows or not -1 <= rows[1] < self._rows:
            raise BufferStateError(f"the state of {name} is damaged: it says that items are where none are")
        return partial(self._take, state)

    def _take(self, state: Any) -> None:
        with self._lock.held():
            self._items[: self._first_slot].copy_(state["items"])
            self.clear()
            self._take_slots(len(state["slots"]))
            self._slots[: self._used].copy_(state["slots"])
            self._first.copy_(state["first"])
            self._second.copy_(state["second"])
            self._slots_of = {row: list(slots) for row, slots in state["slots_of"].items()}
            used = {slot for slots in self._slots_of.values() for slot in slots}
            self._free = sorted(set(range(self._used)) - used)
            self._turn, self._last_row = state["turn"], state["last_row"]


class HostPair:
    """Two compressed arrays of the host on one store."""

    def __init__(self, kind: Kind, rows: int, codec: Any, delivery: Delivery) -> None:
        self.kind, self._delivery = kind, delivery
        self.first = HostItems(kind, rows, codec, delivery)
        self.second = HostItems(kind, rows, codec, delivery, self.first.array.store)

    def prepare(self, value: Any) -> Array:
        return self.kind.array(value)

    def write(self, row: int, items: Array, others: Array) -> None:
        ca.write_pair(self.first.array, self.second.array, row, items, others)

    def chunk(self, steps: int) -> tuple[Any, Any]:
        return self.first.chunk(steps), self.second.chunk(steps)

    def write_chunk(self, rows: slice, chunk: Any, others: Any) -> None:
        ca.write_pair(self.first.array, self.second.array, rows, chunk, others)

    def read(self, positions: torch.Tensor, others: torch.Tensor | None = None) -> Tensors:
        where, after_where = positions.numpy(), None if others is None else others.numpy()
        shape = (*where.shape, *self.kind.shape)
        other_shape = shape if after_where is None else (*after_where.shape, *self.kind.shape)
        first, second = self._delivery.empty(shape, self.kind), self._delivery.empty(other_shape, self.kind)
        out = None if first is None or second is None else (first, second)
        items, after = ca.read_pair(self.first.flat, self.second.flat, where, out, after_where)
        return self._delivery.decoded(items, self.kind), self._delivery.decoded(after, self.kind)

    def read_first(self, positions: torch.Tensor) -> torch.Tensor:
        return self.first.read(positions)

    def read_second(self, positions: torch.Tensor) -> torch.Tensor:
        return self.second.read(positions)

    def clear(self) -> None:
        self.first.clear()
        self.second.clear()

    def usage(self, steps: int) -> KeyUsage:
        return usage_of([self.first.array, self.second.array], steps * self.kind.lanes, self.kind.nbytes)

    def state_dict(self) -> torch.Tensor:
        return as_bytes(ca.concatenate([self.first.array, self.second.array]))  # in one file what is on one store

    def loading(self, state: torch.Tensor) -> Callable[[], object]:
        rows = len(self.first.array)
        return partial(self._take, from_bytes(state, self.first.array, 2 * rows), rows)

    def _take(self, both: ca.CompressedArray, rows: int) -> None:
        self.first.use(both[:rows].copy())
        self.second.use(both[rows:].copy())


class DevicePair:
    """Two compressed arrays of a torch device on one store."""

    def __init__(self, kind: Kind, rows: int, codec: Any, device: torch.device, delivery: Delivery) -> None:
        self.kind = kind
        self.first = DeviceItems(kind, rows, codec, device, delivery)
        self.second = DeviceItems(kind, rows, codec, device, delivery, self.first.array.store)

    def prepare(self, value: Any) -> torch.Tensor:
        return self.kind.tensor(value)

    def write(self, row: int, items: torch.Tensor, others: torch.Tensor) -> None:
        self.first.write(row, items)
        self.second.write(row, others)

    def chunk(self, steps: int) -> tuple[Any, Any]:
        return self.first.chunk(steps), self.second.chunk(steps)

    def write_chunk(self, rows: slice, chunk: Any, others: Any) -> None:
        write_by_turns(self, rows, chunk, others)

    def read(self, positions: torch.Tensor, others: torch.Tensor | None = None) -> Tensors:
        return self.first.read(positions), self.second.read(positions if others is None else others)

    def read_first(self, positions: torch.Tensor) -> torch.Tensor:
        return self.first.read(positions)

    def read_second(self, positions: torch.Tensor) -> torch.Tensor:
        return self.second.read(positions)

    def clear(self) -> None:
        self.first.clear()
        self.second.clear()

    def usage(self, steps: int) -> KeyUsage:
        return usage_of([self.first.array, self.second.array], steps * self.kind.lanes, self.kind.nbytes)

    def state_dict(self) -> Any:
        return {"first": self.first.state_dict(), "second": self.second.state_dict()}

    def loading(self, state: Any) -> Callable[[], object]:
        ready = self.first.loading(state["first"]), self.second.loading(state["second"])
        return lambda: [take() for take in ready]


def write_by_turns(pair: DensePair | DevicePair, rows: slice, chunk: Any, others: Any) -> None:
    """Write steps of a chunk row by row, as they would have come, so that what two steps share is found."""
    first, second = decoded(chunk, pair.kind), decoded(others, pair.kind)
    for row, items, after in zip(range(rows.start, rows.stop), first, second, strict=True):
        pair.write(row, items, after)
