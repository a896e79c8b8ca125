"""`CompressedBuffer`: SB3's own buffers, with compressed arrays for their observations.

SB3's own methods run unchanged. Wherever they allocate observations, they are given a space without elements, so that
they allocate nothing, and the compressed arrays are assigned afterwards.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import cache
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.preprocessing import get_obs_shape

from compressed_array.usage import MemoryUsage, usage_of
from compressed_array_sb3 import _codecs, _options
from compressed_array_sb3._convert import converted
from compressed_array_sb3._reads import PLACEHOLDER, ObservationArray, SampleScope, current
from compressed_array_sb3._spaces import avoid_copy, checked, without_elements
from compressed_array_sb3.errors import BufferOptionError

Array = npt.NDArray[Any]


class CompressedBuffer(BaseBuffer):
    """What all compressed buffers have in common. It comes before one of SB3's buffers in a list of bases.

    Args:
        buffer_size: How many transitions are kept, as SB3 counts them.
        observation_space: The space that observations are of.
        action_space: The space that actions are of.
        codec: How observations are kept: a name such as "auto", "delta", "zstd-3" or "none", a codec of
            `compressed_array`, or a dict with one of these for each key of a Dict space.
        compression_method: What sb3-extra-buffers calls the codec.
        compression_kwargs: Options of a `compression_method`, of which `compresslevel` gives its level.
        decompression_kwargs: Accepted for users of sb3-extra-buffers; a codec needs no options to decode.
        dtypes: Accepted likewise; observations always keep the dtype of their space.
        normalize_images: Whether sampled observations are divided by 255 if they are of dtype uint8, or of a Box from 0
            to 255.
        output_dtype: "float" for samples of float32, "raw" for the dtype of the space.

    All other arguments are those of the stock buffer. `optimize_memory_usage` is accepted by every replay buffer and
    changes nothing: what two transitions share is kept once anyway, and no transition is lost for it.
    """

    # The attributes in which the stock buffer has observations.
    observation_fields: ClassVar[tuple[str, ...]]
    # Whether all observations are plain arrays, which SB3's methods read directly.
    is_plain = False
    # Whether SB3's methods also write them directly: once a first step has passed the checks that others get.
    adds_unchecked = False
    # Whether only code of SB3 sees what its `add` is given, so that placeholders will do.
    _gives_placeholders = False

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *args: Any,
        codec: Any = "auto",
        compression_method: str | None = None,
        compression_kwargs: dict[str, Any] | None = None,
        decompression_kwargs: dict[str, Any] | None = None,
        dtypes: Any = None,
        normalize_images: bool = False,
        output_dtype: str = "raw",
        **kwargs: Any,
    ) -> None:
        _options.check_class(self, observation_space, kwargs)
        _options.check_size(buffer_size)
        if output_dtype not in ("raw", "float"):
            raise BufferOptionError(f"output_dtype is 'raw' or 'float', not {output_dtype!r}")
        self.codec = _codecs.choose(codec, compression_method, compression_kwargs)
        _codecs.check_keys(self.codec, observation_space)
        self.normalize_images, self.output_dtype = normalize_images, output_dtype
        self._divided = _options.images(observation_space) if normalize_images else frozenset()
        args, kwargs = without_optimize(self._stock_classes(), args, kwargs)
        super().__init__(buffer_size, without_elements(observation_space), action_space, *args, **kwargs)
        self.observation_space = observation_space
        self.obs_shape = get_obs_shape(observation_space)  # type: ignore[assignment]  # as in SB3
        self._allocate()

    @classmethod
    def from_buffer(cls, stock: BaseBuffer, **options: Any) -> Self:
        """Returns a compressed buffer that gives the same samples as one of SB3's, which is not changed.

        Args:
            stock: An object of the class that this one compresses, filled or not.
            options: What else the compressed buffer is made with, such as `codec`.
        """
        made: Self = converted(cls, cls._stock_classes(), stock, options)
        return made

    @classmethod
    def _options_of(cls, compressed: CompressedBuffer) -> dict[str, Any]:
        """Returns the options of a compressed buffer that one of this class, made from it, has by default."""
        return {name: getattr(compressed, name) for name in ("codec", "normalize_images", "output_dtype")}

    @classmethod
    def _has_all_of(cls, loaded: CompressedBuffer, options: dict[str, Any]) -> bool:
        """Whether a compressed buffer from a file can do what one of this class with these options can."""
        return True

    @classmethod
    def _stock_classes(cls) -> tuple[type, ...]:
        """Returns the class of SB3 that this one compresses, and the classes that it derives from."""
        return cls.__mro__[cls.__mro__.index(CompressedBuffer) + 1 :]

    def reset(self) -> None:
        space, shape = self.observation_space, self.obs_shape
        before = getattr(self, self.observation_fields[0], None)
        if before is not None:
            self._compact()
        # SB3 resets a twin, whose attributes are then taken over in one step: after an interrupt, this buffer is either
        # unchanged or reset.
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.observation_space = without_elements(space)
        twin.obs_shape = get_obs_shape(twin.observation_space)  # type: ignore[assignment]  # as in SB3
        super(CompressedBuffer, twin).reset()
        twin.observation_space, twin.obs_shape = space, shape
        twin._allocate(before)
        self.__dict__.update(twin.__dict__)

    def to_torch(self, array: Array, copy: bool = True) -> torch.Tensor:
        reads = None if self.is_plain else current()
        taken = reads.take_over(array) if reads is not None else None
        return super().to_torch(array, copy) if taken is None else taken

    def memory_usage(self) -> MemoryUsage:
        """Returns how much memory is held now, and how much SB3 would hold."""
        transitions = self.size() * self.n_envs
        fields = [getattr(self, name) for name in self.observation_fields]
        keys = {}
        for key, shape, dtype in self._observation_specs():
            arrays = [field[key] if isinstance(field, dict) else field for field in fields]
            keys[key] = usage_of(arrays, transitions, prod(shape) * dtype.itemsize)
        rest = sum(
            value.nbytes
            for name, value in self.__dict__.items()
            if isinstance(value, np.ndarray) and name not in self.observation_fields
        )
        return MemoryUsage(transitions, self.buffer_size * self.n_envs, keys, rest)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.memory_usage()}>"

    def _get_samples(self, *args: Any, **kwargs: Any) -> Any:
        sample = super()._get_samples  # type: ignore[safe-super]  # of SB3's buffer, which has it
        reads = self._reads()
        samples = sample(*args, **kwargs) if reads is None else reads.during(sample, *args, **kwargs)
        return self._converted(samples, kwargs.get("env"))

    def _reads(self) -> SampleScope | None:
        """Returns the scope in which a sample reads its observations; None if they are plain arrays."""
        return None if self.is_plain else SampleScope(self._pairs(), self.device)

    def _converted(self, samples: Any, env: Any = None) -> Any:
        """Returns samples with their observations as `output_dtype` and `normalize_images` ask for them."""
        if self.output_dtype == "raw" and not self.normalize_images:
            return samples
        fields = [name for name in ("observations", "next_observations") if hasattr(samples, name)]
        return samples._replace(**{name: self._convert(getattr(samples, name), env) for name in fields})

    def _convert(self, obs: Any, env: Any, key: str = "") -> Any:
        if isinstance(obs, dict):
            return {key: self._convert(part, env, key) for key, part in obs.items()}
        if key in self._divided and not (env is not None and env.norm_obs and (not key or key in env.norm_obs_keys)):
            return obs.float() / 255  # never in place, even for floats: another tensor may be on the same memory
        return obs.float() if self.output_dtype == "float" else obs

    def _copy_of(self, field: Any, *where: int) -> Any:
        """Returns a copy of one observation."""
        if isinstance(field, dict):
            return {key: self._copy_of(part, *where) for key, part in field.items()}
        item = field[where]
        return item.clone() if isinstance(item, torch.Tensor) else np.array(item)

    def _checked(self, obs: Any) -> Any:
        return checked(obs, self.observation_space, self.obs_shape, self.n_envs)

    def _may_skip_checks(self) -> bool:
        """Whether further steps may go to SB3 unchecked and unchanged, now that a first one has passed the checks."""
        # SB3 would turn the numbers of a Discrete key into columns, and assign these to the caller's dict.
        is_dict = isinstance(self.observation_space, spaces.Dict)
        return self.is_plain and not (is_dict and has_discrete(self.observation_space))

    def _for_stock_add(self, *step: Any) -> Sequence[Any]:
        """Returns what SB3's `add` is given instead of checked observations, one for each of `observation_fields`."""
        if not self._gives_placeholders:
            return [avoid_copy(obs, self.observation_space) for obs in step]
        fields = [getattr(self, name) for name in self.observation_fields]
        if not isinstance(fields[0], dict):
            return placeholders(fields, step)
        parts = {key: placeholders([f[key] for f in fields], [obs[key] for obs in step]) for key in fields[0]}
        return [{key: part[i] for key, part in parts.items()} for i in range(len(step))]

    def _observation_specs(self) -> Iterator[tuple[str, tuple[int, ...], np.dtype[Any]]]:
        """Yields key, shape and dtype of each observation; a single one has the key ""."""
        if isinstance(self.observation_space, spaces.Dict):
            for key, space in self.observation_space.spaces.items():
                yield key, self.obs_shape[key], np.dtype(space.dtype)  # type: ignore[call-overload]  # a dict here
        else:
            yield "", self.obs_shape, np.dtype(self.observation_space.dtype)

    def _arrays(self) -> list[Any]:
        """Returns all arrays of observations."""
        fields = [getattr(self, name) for name in self.observation_fields]
        return [array for field in fields for array in (field.values() if isinstance(field, dict) else [field])]

    def _compact(self) -> None:
        """Frees what the stores keep to compare the next observation with, which will not follow the last one."""
        for array in self._arrays():
            if type(array) is not np.ndarray:
                array.compact()

    def _pairs(self) -> list[tuple[ObservationArray, ObservationArray]]:
        """Returns the arrays of observations and next observations, two by two, that share a store."""
        if len(self.observation_fields) < 2:
            return []
        first, second = (getattr(self, name) for name in self.observation_fields)
        parts = [(first[key], second[key]) for key in first] if isinstance(first, dict) else [(first, second)]
        return [pair for pair in parts if isinstance(pair[0], ObservationArray)]

    def _allocate(self, before: Any = None) -> None:
        """Makes the arrays of observations, on the stores of those from `before`, which already know these streams."""
        arrays: list[Any] = [{} for _ in self.observation_fields]
        for key, shape, dtype in self._observation_specs():
            full = (self.buffer_size, self.n_envs, *shape)
            codec = _codecs.for_key(self.codec, key, prod(shape) * dtype.itemsize)
            old = before.get(key) if isinstance(before, dict) else before
            store = getattr(old, "store", None)
            for made in arrays:
                made[key] = self._new_array(full, dtype, len(shape), codec, store)
                store = getattr(made[key], "store", None)
        is_dict = isinstance(self.observation_space, spaces.Dict)
        for name, made in zip(self.observation_fields, arrays, strict=True):
            # Not by `__dict__`: once an object was asked for that, Python looks up its attributes more slowly.
            setattr(self, name, self._dict_of(made) if is_dict else made[""])
        self.is_plain = all(type(array) is np.ndarray for array in self._arrays())
        self._gives_placeholders = adds_as_sb3(type(self)) and not has_discrete(self.observation_space)

    def _new_array(self, shape: tuple[int, ...], dtype: np.dtype[Any], item_ndim: int, codec: Any, store: Any) -> Any:
        """Returns an array for observations, on a given store or on a new one; a plain array without a codec."""
        if codec is None:
            return np.zeros(shape, dtype)
        if store is not None:
            return ObservationArray(shape, dtype, item_ndim=item_ndim, store=store)
        return ObservationArray(shape, dtype, item_ndim=item_ndim, codec=codec)

    def _dict_of(self, arrays: dict[str, Any]) -> dict[str, Any]:
        return arrays


def placeholders(arrays: Sequence[Any], step: Sequence[Array]) -> Sequence[Array]:
    """Hands a step's items to the arrays of one observation, and returns placeholders; the items for plain arrays."""
    if not isinstance(arrays[0], ObservationArray):
        return step
    arrays[0].known = (*arrays[1:], *step)
    return [PLACEHOLDER] * len(step)


@cache
def adds_as_sb3(buffer: type[CompressedBuffer]) -> bool:
    """Whether each `add` that a compressed class hands steps on to is SB3's or sb3-contrib's own."""
    stock = buffer.__mro__[buffer.__mro__.index(CompressedBuffer) + 1 :]
    adds = [base.__dict__["add"].__module__ for base in stock if "add" in base.__dict__]
    return all(module.split(".")[0] in ("stable_baselines3", "sb3_contrib") for module in adds)


def has_discrete(space: spaces.Space[Any]) -> bool:
    """Whether SB3 changes the shape of observations before it assigns them, as it does for Discrete spaces."""
    parts = space.spaces.values() if isinstance(space, spaces.Dict) else [space]
    return any(isinstance(part, spaces.Discrete) for part in parts)


def without_optimize(
    stock: tuple[type, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns arguments for the stock classes without `optimize_memory_usage`, with which SB3 loses transitions."""
    for base in stock:
        names = list(inspect.signature(base.__init__).parameters)  # type: ignore[misc]  # of a class, not an instance
        if "optimize_memory_usage" in names:
            place = names.index("optimize_memory_usage") - 4  # after self, buffer_size and the two spaces
            if len(args) > place:
                args = (*args[:place], False, *args[place + 1 :])
            return args, {name: value for name, value in kwargs.items() if name != "optimize_memory_usage"}
    return args, kwargs
