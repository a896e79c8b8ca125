"""Turning one of SB3's buffers, or a compressed one, into a compressed one that gives the same samples."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer

from compressed_array import CompressedArray
from compressed_array_sb3._direct import OURS
from compressed_array_sb3.errors import BufferClassError, BufferOptionError

# What changes as a buffer is used, besides its arrays: all else follows from the arguments that it was made with.
PLACE = ("pos", "full", "generator_ready")
# What a converted buffer has in common with the one that it is made from.
SHAPE = ("buffer_size", "observation_space", "action_space", "n_envs")


def converted(cls: Any, classes: tuple[type, ...], stock: Any, options: dict[str, Any]) -> Any:
    """Returns an object of `cls`, which compresses the stock `classes`, with all that the buffer `stock` holds."""
    kind: type = type(stock)
    is_compressed = _is_compressed_of(classes, stock)
    if kind is not classes[0] and not is_compressed:
        raise BufferClassError(
            f"{cls.__name__}.from_buffer takes a {classes[0].__name__}, not a {kind.__name__}: each compressed "
            "class converts the one that it is made from, and replay buffers on the host that are made from that, too"
        )
    if given := sorted(options.keys() & set(SHAPE)):
        raise BufferOptionError(f"a converted buffer has the {' and '.join(given)} of the one it is made from")
    if is_compressed:
        told = cls._options_of(stock)
        options = (told if "compression_method" not in options else told | {"codec": "auto"}) | options
    made = cls(**_arguments(classes, stock) | options)
    for name, value in vars(stock).items():
        if isinstance(value, np.ndarray) and name not in cls.observation_fields:
            setattr(made, name, value.copy())
        elif name in PLACE:
            setattr(made, name, value)
    if _shares_rows(stock) and stock.full:
        _unroll(made)
    _fill(made, stock)
    return made


def _is_compressed_of(classes: tuple[type, ...], stock: Any) -> bool:
    """Whether a buffer is one of our adapters', compresses the first of these classes, and has arrays of the host."""
    kind: type = type(stock)
    if kind.__module__.partition(".")[0] not in OURS or kind._stock_classes() != classes:  # type: ignore[attr-defined]  # of ours
        return False
    # HER keeps lists of episodes as well, and a rollout may already be flattened.
    has_rows = isinstance(stock, ReplayBuffer) and not hasattr(stock, "ep_length")
    return has_rows and all(isinstance(array, (np.ndarray, CompressedArray)) for array in stock._arrays())


def _arguments(classes: tuple[type, ...], stock: BaseBuffer) -> dict[str, Any]:
    """Returns the arguments by which the stock buffer was made, found among its attributes by their names."""
    names = [name for base in classes for name in inspect.signature(base.__init__).parameters]  # type: ignore[misc]  # of a class, not an instance
    given = {name: getattr(stock, name) for name in names if hasattr(stock, name) and name != "optimize_memory_usage"}
    if isinstance(stock, ReplayBuffer):  # its constructor divides buffer_size by the number of environments
        given["buffer_size"] = stock.buffer_size * stock.n_envs
    return given


def _shares_rows(stock: Any) -> bool:
    """Whether a next observation is kept as the observation of the next row, and nowhere else."""
    return bool(getattr(stock, "optimize_memory_usage", False))


def _unroll(made: Any) -> None:
    """Puts the oldest transition first.

    If rows are shared, a full buffer has one transition less than rows: the newest next observation lies where the
    oldest observation was. SB3 leaves that row out when it samples; here it becomes the row that is written next.
    """
    for name, value in vars(made).items():
        if isinstance(value, np.ndarray) and name not in made.observation_fields:
            vars(made)[name] = np.roll(value, -made.pos - 1, axis=0)
    made.pos, made.full = made.buffer_size - 1, False


def _fill(made: Any, stock: Any) -> None:
    """Writes all observations in the order in which they came: the oldest step first, and each step as a whole."""
    is_flat = getattr(stock, "generator_ready", False)
    pairs = []
    for name in made.observation_fields:
        later = int(name == "next_observations" and _shares_rows(stock))
        field, target = getattr(stock, "observations" if later else name), vars(made)[name]
        for key in field if isinstance(field, dict) else [...]:
            array = field[key]
            if is_flat:
                array = array.reshape(stock.n_envs, stock.buffer_size, *array.shape[1:]).swapaxes(0, 1)
            pairs.append((target if key is ... else target[key], array, later))
    rows = _rows(stock)
    for to, row in zip(range(len(rows)) if _shares_rows(stock) else rows, rows, strict=True):
        for target, array, later in pairs:
            target[to] = array[(row + later) % stock.buffer_size]
    if is_flat:
        for name in made.observation_fields:
            field, flat = vars(made)[name], made.swap_and_flatten
            is_dict = isinstance(field, dict)
            vars(made)[name] = {key: flat(part) for key, part in field.items()} if is_dict else flat(field)


def _rows(stock: Any) -> list[int]:
    """Returns the rows that hold something, oldest first."""
    size, pos = stock.buffer_size, stock.pos
    if stock.full and isinstance(stock, ReplayBuffer):
        return [row % size for row in range(pos + _shares_rows(stock), pos + size)]
    if hasattr(stock, "ep_length"):  # after a reset, HER goes on sampling the episodes that it has
        return list(range(max(pos, *(np.flatnonzero(stock.ep_length.any(axis=1)) + 1).tolist(), 0)))
    return list(range(pos))
