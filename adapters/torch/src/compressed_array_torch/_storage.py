"""`Storage`: all fields of a buffer's steps, each where its codec and its size put it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch

from compressed_array.usage import MemoryUsage
from compressed_array_torch._buffer_lock import BufferLock
from compressed_array_torch._dense_pair import DensePair
from compressed_array_torch._items import CPU, Delivery, DenseItems, DeviceItems, HostItems, Items
from compressed_array_torch._pairs import DevicePair, HostPair, Pair
from compressed_array_torch._row_gather import RowGather
from compressed_array_torch._rows import Rows
from compressed_array_torch._tensors import Array, Kind, as_bits
from compressed_array_torch.errors import BufferStateError, StepError
from compressed_array_torch.fields import OBSERVATIONS, SMALL, Codecs, Field, parts_of, tree_of


class Prepared(NamedTuple):
    """A step in the form that is written: items of observations and large fields, next observations, small fields."""

    items: dict[str, Any]
    after: dict[str, Any]
    small: dict[str, torch.Tensor]

    @property
    def ended(self) -> torch.Tensor:
        """Returns which episodes have ended, for one reason or the other."""
        terminated = self.small["terminated"]
        return terminated | self.small["truncated"].to(terminated.device)


class Chunk(NamedTuple):
    """Some steps on their way to the storage of another process."""

    steps: int
    parts: dict[str, Any]  # observations, in pairs if there are next observations, and large fields
    small: dict[str, Array]  # small fields, with the items of all steps one after the other


class Storage:
    """The observations and other fields of a buffer's steps.

    Args:
        rows: How many steps there is room for.
        observations: The kinds of observations, by name.
        fields: The kinds of all other fields.
        codecs: How each field is kept.
        defaults: The buffer's own fields, which say how they are kept if `codecs` does not.
        device: Where fields are kept.
        delivery: Where batches go.
        is_paired: Whether there are next observations.
    """

    def __init__(
        self,
        rows: int,
        observations: Mapping[str, Kind],
        fields: Sequence[Kind],
        codecs: Codecs,
        defaults: Mapping[str, Field],
        device: torch.device,
        delivery: Delivery,
        *,
        is_paired: bool,
    ) -> None:
        self.device, self._delivery, self._rows_count, self.is_paired = device, delivery, rows, is_paired
        self._observations, self.is_tree = observations, list(observations) != [OBSERVATIONS]
        self.lanes = next(iter(observations.values())).lanes
        self._lock = BufferLock()  # held while items move, or are looked for
        self.chosen: dict[str, tuple[Kind, Any]] = {}  # the kinds and codecs of all fields that may have a codec
        self.pairs: dict[str, Pair] = {}
        self.items: dict[str, Items] = {}
        for name, kind in observations.items():
            if is_paired:
                self.pairs[name] = self._new_pair(kind, self._choose(kind, codecs.of(kind)))
            else:
                self.items[name] = self._new_items(kind, self._choose(kind, codecs.of(kind)))
        small = []
        for kind in fields:
            codec = codecs.of(kind, defaults[kind.name].codec if kind.name in defaults else None)
            if kind.name in codecs.names:
                self._choose(kind, codec)
            if codec is None and kind.nbytes <= SMALL:
                small.append(kind)
            else:
                self.items[kind.name] = self._new_items(kind, codec)
        self._small = {kind.name: kind for kind in small}
        self.rows = Rows(small, rows * self.lanes, device)

    def _choose(self, kind: Kind, codec: Any) -> Any:
        self.chosen[kind.name] = kind, codec
        return codec

    def _new_pair(self, kind: Kind, codec: Any) -> Pair:
        rows, delivery = self._rows_count, self._delivery
        if codec is None:
            return DensePair(kind, rows, self.device, delivery, self._lock)
        if self.device == CPU:
            return HostPair(kind, rows, codec, delivery)
        return DevicePair(kind, rows, codec, self.device, delivery)

    def _new_items(self, kind: Kind, codec: Any) -> Items:
        rows, delivery = self._rows_count, self._delivery
        if codec is None:
            return DenseItems(kind, rows, self.device, delivery)
        if self.device == CPU:
            return HostItems(kind, rows, codec, delivery)
        return DeviceItems(kind, rows, codec, self.device, delivery)

    def prepare(self, obs: Any, next_obs: Any, fields: Mapping[str, Any]) -> Prepared:
        """Returns a step, checked and in the form that is written; raises StepError before anything has changed."""
        places: Mapping[str, Any] = self.pairs if self.is_paired else self.items
        parts = parts_of(obs, self._observations, "obs")
        items = {name: places[name].prepare(part) for name, part in parts.items()}
        after = {}
        if self.is_paired:
            parts = parts_of(next_obs, self._observations, "next_obs")
            after = {name: places[name].prepare(part) for name, part in parts.items()}
        small = {}
        for name, value in fields.items():
            if name in self._small:
                small[name] = self._small[name].tensor(value)
            elif name in self.items:
                items[name] = self.items[name].prepare(value)
            else:
                raise StepError(f"this buffer has no field {name!r}; it has {sorted(self.names)}")
        missing = sorted(self.names - fields.keys())
        if missing:
            raise StepError(f"a step has to have a value for each field, and this one lacks {missing}")
        return Prepared(items, after, small)

    @property
    def names(self) -> set[str]:
        """Returns the fields beside observations."""
        return {*self._small, *(name for name in self.items if name not in self._observations)}

    def write(self, row: int, step: Prepared) -> None:
        for name, items in step.items.items():
            if name in self.pairs:
                self.pairs[name].write(row, items, step.after[name])
            else:
                self.items[name].write(row, items)
        self.rows.write(row * self.lanes, step.small)

    def chunk(self, steps: int) -> Chunk:
        """Returns the first steps, for `write_chunk` of a storage with the same fields."""
        parts = {name: place.chunk(steps) for name, place in self._places.items()}
        return Chunk(steps, parts, self.rows.chunk(steps * self.lanes))

    def write_chunk(self, rows: slice, chunk: Chunk, first: int) -> None:
        """Writes as many steps of a chunk as there are rows, from the step `first` on."""
        steps = slice(first, first + rows.stop - rows.start)
        for name, part in chunk.parts.items():
            if name in self.pairs:
                self.pairs[name].write_chunk(rows, part[0][steps], part[1][steps])
            else:
                self.items[name].write_chunk(rows, part[steps])
        items = slice(steps.start * self.lanes, steps.stop * self.lanes)
        self.rows.write_chunk(rows.start * self.lanes, {name: part[items] for name, part in chunk.small.items()})

    def observations(self, positions: torch.Tensor) -> Any:
        """Returns observations at these positions: a tensor, or a tree of them."""
        if self.is_paired:
            return self._tree({name: pair.read_first(positions) for name, pair in self.pairs.items()})
        return self._tree({name: self.items[name].read(positions) for name in self._observations})

    def next_observations(self, positions: torch.Tensor) -> Any:
        """Returns next observations at these positions."""
        return self._tree({name: pair.read_second(positions) for name, pair in self.pairs.items()})

    def both(self, positions: torch.Tensor, others: torch.Tensor | None = None) -> tuple[Any, Any]:
        """Returns observations at these positions, and next observations there, or at others."""
        if not self.is_tree:
            return self.pairs[OBSERVATIONS].read(positions, others)
        parts = {name: pair.read(positions, others) for name, pair in self.pairs.items()}
        observations = {name: first for name, (first, _) in parts.items()}
        next_observations = {name: second for name, (_, second) in parts.items()}
        return self._tree(observations), self._tree(next_observations)

    @cached_property
    def _row_gather(self) -> RowGather | None:
        """Returns a reader of all small parts of transitions at once; None unless all is uncompressed, on the host."""
        pairs = [pair.sources for pair in self.pairs.values() if isinstance(pair, DensePair)]
        is_here = (self.device, self._delivery.device) == (CPU, CPU)
        if not is_here or len(pairs) < len(self.pairs) or not all(pairs):
            return None
        sources = [source for of_pair in pairs for source in of_pair]
        return RowGather(self._rows_count * self.lanes, sources + self.rows.sources)

    def transitions(
        self, positions: torch.Tensor, others: torch.Tensor | None = None, without: Sequence[str] = ()
    ) -> tuple[Any, Any, dict[str, torch.Tensor]]:
        """Returns what `both` and `fields` return: observations, next observations and all other fields."""
        parts = None
        if self._row_gather is not None and others is None and not without:
            with self._lock.held():
                parts = self._row_gather.read(positions)
        if parts is None:
            return *self.both(positions, others), self.fields(positions, without)
        of_pairs, of_rows = parts[: 2 * len(self.pairs)], parts[2 * len(self.pairs) :]  # in the order of the sources
        observations = dict(zip(self.pairs, of_pairs[0::2], strict=True))
        next_observations = dict(zip(self.pairs, of_pairs[1::2], strict=True))
        fields = dict(zip(self.rows.fields, of_rows, strict=True))
        fields |= {name: items.read(positions) for name, items in self.items.items()}
        return self._tree(observations), self._tree(next_observations), fields

    def fields(self, positions: torch.Tensor, without: Sequence[str] = ()) -> dict[str, torch.Tensor]:
        """Returns all other fields at these positions."""
        names = [name for name in self._small if name not in without] if without else None
        fields = {name: self._delivery.tensor(part) for name, part in self.rows.read(positions, names).items()}
        for name in self.items:
            if name not in self._observations and name not in without:
                fields[name] = self.items[name].read(positions)
        return fields

    def field(self, name: str, positions: torch.Tensor) -> torch.Tensor:
        """Returns one field at these positions."""
        if name in self._small:
            return self._delivery.tensor(self.rows.fields[name][positions])
        return self.items[name].read(positions)

    def update(self, positions: torch.Tensor, fields: Mapping[str, torch.Tensor]) -> None:
        """Writes values of fields other than observations to any steps, (positions, *shape) each."""
        for name, values in fields.items():
            if name in self._small:
                as_bits(self.rows.fields[name])[positions] = as_bits(values.to(self.device))
            else:
                self.items[name].update(positions, values)

    def kind(self, name: str) -> Kind:
        """Returns what a field other than observations is."""
        return self._small[name] if name in self._small else self.items[name].kind

    @property
    def _places(self) -> dict[str, Pair | Items]:
        return {**self.pairs, **self.items}

    def _tree(self, parts: dict[str, torch.Tensor]) -> Any:
        return tree_of(parts, OBSERVATIONS)

    def clear(self) -> None:
        for place in self._places.values():
            place.clear()

    def usage(self, steps: int, capacity: int) -> MemoryUsage:
        """Returns how much memory so many steps take."""
        keys = {name: place.usage(steps) for name, place in self._places.items()}
        return MemoryUsage(steps * self.lanes, capacity * self.lanes, keys, self.rows.nbytes)

    def state_dict(self) -> dict[str, Any]:
        items = {name: place.state_dict() for name, place in self._places.items()}
        return {"rows": self.rows.state_dict(), "items": items}

    def prepare_load(self, state: Mapping[str, Any]) -> Callable[[], object]:
        """Checks a state, and returns a function that loads it."""
        places, items = self._places, state["items"]
        if items.keys() != places.keys():
            raise BufferStateError(
                f"in this state {sorted(items)} are large or compressed, and here {sorted(places)}: give the buffer "
                "the fields and codecs that the saved one had"
            )
        ready = [self.rows.prepare_load(state["rows"])]
        ready += [place.prepare_load(items[name]) for name, place in places.items()]
        return lambda: [take() for take in ready]
