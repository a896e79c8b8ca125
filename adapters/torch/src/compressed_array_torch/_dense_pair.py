"""`DensePair`: uncompressed observations and next observations, each kept once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from compressed_array.usage import PLAIN, KeyUsage
from compressed_array_torch._buffer_lock import BufferLock
from compressed_array_torch._items import Delivery, check_tensor
from compressed_array_torch._pairs import Tensors, write_row_by_row
from compressed_array_torch._row_gather import Source
from compressed_array_torch._tensors import Array, Kind, as_bits, as_host, zeros
from compressed_array_torch.errors import BufferStateError


class DensePair:
    """Uncompressed observations; a next observation is the item of the next row, unless a step began with another one.

    There is one row of items more than there are steps, for the last next observation. When a step comes whose
    observation differs from the next observation in its row, as after the end of an episode, that one moves to a slot
    of its own behind the rows. `_first` and `_second` say for each step where its two items are.
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
        # The host's memory costs nothing before it is written to; slots on a device are made when they are needed.
        self._slots_apart = device.type != "cpu"
        slots = 0 if self._slots_apart else rows * lanes
        self._items = zeros((count + slots, *kind.shape), kind.dtype, device)
        self._slots = self._items[count:]
        self._item_row = 0  # the row of items that the next observations belong to
        self._last_row: int | None = None  # of the last step
        self._used, self._free = 0, list[int]()  # slots
        self._slots_of: dict[int, list[int]] = {}

    @property
    def sources(self) -> list[Source]:
        """Returns observations and next observations as `RowGather` takes them; none if slots lie elsewhere."""
        return [] if self._slots_apart else [(self._items, self._first), (self._items, self._second)]

    def prepare(self, value: Any) -> torch.Tensor:
        return self.kind.tensor(value)

    def write(self, row: int, items: torch.Tensor, others: torch.Tensor) -> None:
        lanes = self.kind.lanes
        items, others = items.to(self._items.device), others.to(self._items.device)
        self._go_back_to(row)
        here, there = self._item_row * lanes, (self._item_row + 1) % (self._rows + 1) * lanes
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
            self._item_row, self._last_row = there // lanes, row

    def _go_back_to(self, row: int) -> None:
        """Makes this row the next one to write, though it, and some after it, were written by a call that failed."""
        rows = self._rows
        too_many = ((0 if self._last_row is None else self._last_row + 1) - row) % rows
        if too_many:
            self._item_row, self._last_row = (self._item_row - too_many) % (rows + 1), (row - 1) % rows

    def chunk(self, steps: int) -> tuple[Array, Array]:
        held = slice(steps * self.kind.lanes)
        first, second = self._items.index_select(0, self._first[held]), self._next_items(self._second[held])
        return as_host(first).reshape(steps, *self.kind.full), as_host(second).reshape(steps, *self.kind.full)

    def write_chunk(self, rows: slice, chunk: Any, others: Any) -> None:
        write_row_by_row(self, rows, chunk, others)

    def _reconcile(self, last_row: int, here: int, items: torch.Tensor) -> None:
        """Puts items where the last step's next observations are, after moving those of them that differ."""
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
            first = self._taken(self._first.index_select(0, flat))
            second = self._next_items(self._second.index_select(0, after))
        return self._delivered(first, positions), self._delivered(second, positions if others is None else others)

    def read_first(self, positions: torch.Tensor) -> torch.Tensor:
        with self._lock.held():
            at = self._first.index_select(0, positions.reshape(-1))
            return self._delivered(self._taken(at), positions)

    def read_second(self, positions: torch.Tensor) -> torch.Tensor:
        with self._lock.held():
            at = self._second.index_select(0, positions.reshape(-1))
            return self._delivered(self._next_items(at), positions)

    def _next_items(self, at: torch.Tensor) -> torch.Tensor:
        """Returns next observations, of rows or of slots, without waiting for a device to tell which."""
        if not self._slots_apart:
            return self._taken(at)
        usual = self._items.index_select(0, at.clamp(max=self._first_slot - 1))
        if not len(self._slots):
            return usual
        moved = self._slots.index_select(0, (at - self._first_slot).clamp(min=0))
        return torch.where((at >= self._first_slot).reshape(-1, *[1] * len(self.kind.shape)), moved, usual)

    def _taken(self, at: torch.Tensor) -> torch.Tensor:
        return self._delivery.taken(self._items, at, self.kind)

    def _delivered(self, items: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self._delivery.tensor(items.view(*positions.shape, *self.kind.shape))

    def clear(self) -> None:
        self._first.zero_()
        self._second.zero_()
        self._item_row, self._last_row = 0, None
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
                "turn": self._item_row,
                "last_row": self._last_row,
            }

    def prepare_load(self, state: Any) -> Callable[[], object]:
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
            self._item_row, self._last_row = state["turn"], state["last_row"]
