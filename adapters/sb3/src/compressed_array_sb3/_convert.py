"""Turning one of SB3's buffers into a compressed one, which then gives the same samples."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer

from compressed_array_sb3.errors import BufferClassError


def converted(cls: Any, classes: tuple[type, ...], stock: Any, options: dict[str, Any]) -> Any:
    """Returns an object of a compressed class, made from the stock `classes`, with all that a stock buffer holds."""
    kind: type = type(stock)
    if kind is not classes[0]:
        raise BufferClassError(
            f"{cls.__name__}.from_buffer takes a {classes[0].__name__}, not a {kind.__name__}: each compressed "
            "class converts the one that it is made from"
        )
    made = cls(**_arguments(classes, stock) | options)
    left_out = ("optimize_memory_usage", *cls.observation_fields)
    state = {name: value for name, value in vars(stock).items() if name not in left_out}
    vars(made).update({name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()})
    if _shares_rows(stock) and stock.full:
        _unroll(made)
    _fill(made, stock)
    return made


def _arguments(classes: tuple[type, ...], stock: BaseBuffer) -> dict[str, Any]:
    """Returns what the stock buffer was made with, by the names that its classes give to it."""
    names = [name for base in classes for name in inspect.signature(base.__init__).parameters]  # type: ignore[misc]  # of a class, not an instance
    given = {name: getattr(stock, name) for name in names if hasattr(stock, name) and name != "optimize_memory_usage"}
    if isinstance(stock, ReplayBuffer):  # which divides what it is given by the number of environments
        given["buffer_size"] = stock.buffer_size * stock.n_envs
    return given


def _shares_rows(stock: Any) -> bool:
    """Whether a next observation lies in the row of the observation that comes after it."""
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
    """Writes all observations, oldest first and those of a step together, as they came."""
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
    if hasattr(stock, "ep_length"):  # HER goes on sampling the episodes that it has after a reset
        return list(range(max(pos, *(np.flatnonzero(stock.ep_length.any(axis=1)) + 1).tolist(), 0)))
    return list(range(pos))
