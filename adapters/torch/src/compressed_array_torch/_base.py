"""`BaseBuffer`: a ring of steps, the storage of their fields, and what all buffers can do with them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import torch

from compressed_array.sampling import Ring
from compressed_array.usage import MemoryUsage
from compressed_array_torch._buffer_lock import BufferLock
from compressed_array_torch._items import CPU, Delivery
from compressed_array_torch._storage import Prepared, Storage
from compressed_array_torch._tensors import Kind, torch_dtype
from compressed_array_torch.errors import BufferFullError, BufferOptionError, BufferStateError
from compressed_array_torch.fields import OBSERVATIONS, Codecs, Field, observation_kinds, shape_of
from compressed_array_torch.stats_tracker import StatsTracker

# Random whole numbers are below this, so large that the remainders of a division are nearly equally likely.
MANY = 2**62


class ResetStrategy(Enum):
    """What becomes of a buffer that is full when another step comes."""

    ERROR = "error"  # the step is refused
    RECURRENT = "recurrent"  # it is written over the oldest one
    AUTO = "auto"  # the buffer is emptied first


class BaseBuffer:
    """What all buffers have in common.

    Args:
        buffer_size: How many steps are kept, in each of which all environments act once.
        num_envs: How many environments there are.
        obs_shape: The shape of one observation; a mapping of names to shapes, nested or not, for several.
        action_shape: The shape of one action.
        stats_tracker: The tracker that is told of each step, if any.
        obs_dtype: The dtype of observations, one for all or a mapping like `obs_shape`.
        action_dtype: The dtype of actions.
        device: Where batches go.
        store_device: Where steps are kept; by default on the host.
        reset_strategy: What becomes of a full buffer when another step comes.
        codec: How observations are kept: None uncompressed, "auto" by what is best for them, or a codec of
            `compressed_array` such as "delta", "delta-zstd" or "zstd-3"; a mapping has one for each field by name, with
            dots between the names of nested observations.
        fields: What else is kept of each step: an argument of `add`, and an attribute of batches.
        generator: The generator to draw with; by default torch's own.
        own_fields: The scalars that this kind of buffer keeps of each step, with their dtypes.

    Several threads may use a buffer: each call is done before another begins.
    """

    _is_paired = False  # whether there are next observations

    def __init__(
        self,
        buffer_size: int,
        num_envs: int,
        obs_shape: Any,
        action_shape: Any,
        stats_tracker: StatsTracker | None,
        obs_dtype: Any,
        action_dtype: Any,
        device: torch.device | str,
        store_device: torch.device | str | None,
        reset_strategy: ResetStrategy,
        *,
        codec: Any,
        fields: Mapping[str, Field] | None,
        generator: torch.Generator | None,
        own_fields: Mapping[str, torch.dtype],
    ) -> None:
        for name, size in (("buffer_size", buffer_size), ("num_envs", num_envs)):
            if operator.index(size) < 1:
                raise BufferOptionError(f"{name} is from 1 on, not {size}")
        self.num_envs, self.reset_strategy = num_envs, ResetStrategy(reset_strategy)
        self.obs_shape, self.action_shape = obs_shape, shape_of(action_shape, "actions")
        self.device, self.store_device = torch.device(device), torch.device(store_device or CPU)
        self.stats_tracker, self.generator, self._lock = stats_tracker, generator, BufferLock()
        if stats_tracker is not None and stats_tracker.num_envs != num_envs:
            raise BufferOptionError(f"the stats_tracker is for {stats_tracker.num_envs} environments, not {num_envs}")
        extras = dict(fields or {})
        observations = observation_kinds(obs_shape, obs_dtype, num_envs)
        kinds = [Kind("actions", self.action_shape, torch_dtype(action_dtype), num_envs)]
        kinds += [Kind(name, (), dtype, num_envs) for name, dtype in own_fields.items()]
        self._check_names(extras, [kind.name for kind in kinds])
        kinds += [
            Kind(name, shape_of(extra.shape, name), torch_dtype(extra.dtype), num_envs)
            for name, extra in extras.items()
        ]
        self._extras = tuple(extras)
        # The arguments of a buffer for the same steps, such as a writer has in another process.
        self._options = {
            "num_envs": num_envs,
            "obs_shape": obs_shape,
            "action_shape": self.action_shape,
            "obs_dtype": obs_dtype,
            "action_dtype": action_dtype,
            "codec": codec,
            "fields": extras,
        }
        self._changes = 0  # of steps that are held, other than by new ones written over them
        self._ring = Ring(buffer_size, num_envs)
        self._storage = Storage(
            buffer_size,
            observations,
            kinds,
            Codecs(codec, [*observations, "actions", *extras]),
            extras,
            self.store_device,
            Delivery(self.device),
            is_paired=self._is_paired,
        )
        self._set_up()

    def _set_up(self) -> None:
        """Makes what a kind of buffer has beside all this; called at the end of the constructor."""

    def _check_names(self, extras: Mapping[str, Field], taken: list[str]) -> None:
        for name in extras:
            if not name.isidentifier() or name in (*taken, OBSERVATIONS, *RESERVED):
                raise BufferOptionError(f"a field cannot be called {name!r}")

    def __len__(self) -> int:
        """Returns how many steps are held, in each of which all environments acted once."""
        return len(self._ring)

    @property
    def full(self) -> bool:
        return self._ring.is_full

    @property
    def capacity(self) -> int:
        """Returns how many steps there is room for."""
        return self._ring.capacity

    @property
    def total_capacity(self) -> int:
        """Returns how many transitions there is room for."""
        return self._ring.size

    @property
    def current_size(self) -> int:
        """Returns how many steps are held, as `len` does: the name that rl_buffer has for it."""
        return len(self._ring)

    @property
    def total_current_size(self) -> int:
        """Returns how many transitions are held."""
        return self._ring.count

    def reset(self, reset_stats: bool = False) -> None:
        """Drops all steps.

        Args:
            reset_stats: Whether the tracker forgets its episodes, too.
        """
        with self._lock.held():
            self._empty()
            if reset_stats and self.stats_tracker is not None:
                self.stats_tracker.reset()

    def _empty(self) -> None:
        self._ring.clear()
        self._storage.clear()

    def memory_usage(self) -> MemoryUsage:
        """Returns how much memory is held now, and how much a buffer that compresses nothing would hold."""
        return self._storage.usage(len(self._ring), self._ring.capacity)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.memory_usage()}>"

    def update_stats(
        self,
        dones: Any,
        rewards: Any,
        infos: Mapping[str, Any] | None = None,
        done_reasons: list[str | None] | None = None,
    ) -> None:
        """Tells the tracker of a step that is not added.

        Args:
            dones: Which episodes end with it.
            rewards: One for each environment; several of each are added up.
            infos: Other metrics, one value for each environment by name.
            done_reasons: Why episodes ended, None where they did not.
        """
        if self.stats_tracker is not None:
            self.stats_tracker.update(dones, rewards, infos, done_reasons)

    def state_dict(self) -> dict[str, Any]:
        """Returns all that is held, in tensors and plain values of its own, for `torch.save`."""
        with self._lock.held():
            return self._state()

    def _state(self) -> dict[str, Any]:
        generator = None if self.generator is None else self.generator.get_state()
        return {
            "class": type(self).__name__,
            "ring": self._ring.state_dict(),
            "storage": self._storage.state_dict(),
            "generator": generator,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over the state of a buffer made with the same arguments.

        Args:
            state: What `state_dict` returned. Any other is refused and changes nothing.
        """
        with self._lock.held():
            ready = self._prepare_load(state)
            self._changes += 1
            for take in ready:
                take()

    def _prepare_load(self, state: Mapping[str, Any]) -> list[Callable[[], Any]]:
        """Checks a state, and returns the functions that load it."""
        if state.get("class") != type(self).__name__:
            raise BufferStateError(f"this is not the state of a {type(self).__name__}")
        missing = sorted({"ring", "storage", "generator"} - state.keys())
        if missing:
            raise BufferStateError(f"the state is damaged: it has no {missing}")
        ring = Ring(self._ring.capacity, self._ring.lanes)
        try:
            ring.load_state_dict(state["ring"])
            ready: list[Callable[[], Any]] = [self._storage.prepare_load(state["storage"])]
        except BufferStateError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise BufferStateError(f"the state is damaged, or of a buffer of another size: {error}") from error
        ready.append(lambda: self._ring.load_state_dict(state["ring"]))
        if state["generator"] is not None and self.generator is not None:
            generator = self.generator
            try:
                torch.Generator(generator.device).set_state(state["generator"])
            except (RuntimeError, TypeError) as error:
                raise BufferStateError(f"the state of the generator is damaged: {error}") from error
            ready.append(lambda: generator.set_state(state["generator"]))
        return ready

    def _add_step(
        self, step: Prepared, infos: Mapping[str, Any] | None, done_reasons: Sequence[str | None] | None
    ) -> None:
        """Keeps a step that was checked, and tells the tracker, whose part of it is checked before anything is kept."""
        told = None
        if self.stats_tracker is not None:
            told = self.stats_tracker.checked(step.ended, step.small["rewards"], infos, done_reasons)
        self._room()
        self._add(step)
        if self.stats_tracker is not None and told is not None:
            self.stats_tracker.add_step(told)

    def _add(self, step: Prepared) -> None:
        """Writes a step that was checked to the next row, and counts it."""
        row = self._ring.row
        self._ring.make_room()
        self._storage.write(row, step)
        self._ring.advance()

    def _room(self) -> None:
        """Makes room for a step as `reset_strategy` says."""
        if not self._ring.is_full or self.reset_strategy is ResetStrategy.RECURRENT:
            return
        if self.reset_strategy is ResetStrategy.ERROR:
            raise BufferFullError(
                f"the buffer has its {self._ring.capacity} steps: call reset() before the next one, or choose another "
                "reset_strategy"
            )
        self._empty()

    def _words(self, count: int) -> torch.Tensor:
        """Returns random whole numbers, on the device where steps are kept."""
        if count < 1:
            raise ValueError(f"a batch has at least one element, not {count}")
        where = self.store_device if self.generator is None else self.generator.device
        return torch.randint(MANY, (count,), generator=self.generator, device=where).to(self.store_device)


# The names of what batches have already, or `add` takes.
RESERVED = {
    "action",
    "advantages",
    "discounts",
    "done",
    "done_reasons",
    "dones",
    "extras",
    "final_value",
    "indices",
    "infos",
    "is_first",
    "is_valid",
    "last_observations",
    "learning_mask",
    "log_prob",
    "log_probs",
    "next_obs",
    "next_observations",
    "obs",
    "pin_memory",
    "returns",
    "reward",
    "self",
    "to",
    "truncateds",
    "value",
    "values",
    "weights",
}
