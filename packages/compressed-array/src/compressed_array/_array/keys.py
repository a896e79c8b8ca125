"""Which cells, and what of their items, a numpy key asks for. The only place that takes keys apart.

A key is split in two: one for the grid axes, which numpy itself applies to the table of cells, and one for the item
axes, which numpy applies to the decoded items. That gives numpy's answer whenever the two halves do not mix. They mix
where integers or arrays on both sides broadcast against each other; for such a key `split` gives None, and `scatter`
says for each element of the answer which cell it is in and where in the item.
"""

from __future__ import annotations

import operator
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

WHOLE_AXIS = slice(None)


class SplitKey(NamedTuple):
    """A key for the grid and one for the items."""

    grid: tuple[Any, ...]
    item: tuple[Any, ...]
    basic: bool  # no index array anywhere: numpy would answer with a view
    advanced_grid: bool  # an index array among the grid's keys: the same cell may be named twice
    array_in_item: bool  # one among the item's keys: numpy may put its axes in front of the grid's
    whole_items: bool  # the item key leaves items as they are
    scalar: bool  # numpy would answer with a scalar, if the answer has no axes left

    def item_key(self, leading: int) -> tuple[Any, ...]:
        """Returns the key for an array of items behind `leading` axes."""
        return (WHOLE_AXIS,) * leading + self.item


def split(key: Any, grid_ndim: int, ndim: int) -> SplitKey | None:
    """Returns a key taken apart, or None if its halves mix. Raises `IndexError` for more axes than there are."""
    if type(key) is int and grid_ndim:  # a row of a buffer: nothing to take apart
        return SplitKey((key,), (WHOLE_AXIS,) * (ndim - grid_ndim), True, False, False, True, True)
    if type(key) is tuple and len(key) == grid_ndim > 0 and all(_is_integer_array(part) for part in key):
        return SplitKey(key, (WHOLE_AXIS,) * (ndim - grid_ndim), False, True, False, True, False)  # a batch of a buffer
    if grid_ndim == 1 and _is_integer_array(key):  # one of a buffer whose steps lie one behind the other
        return SplitKey((key,), (WHOLE_AXIS,) * (ndim - grid_ndim), False, True, False, True, False)
    parts = [_normal(part) for part in (key if isinstance(key, tuple) else (key,))]
    axes = [_axes(part) for part in parts]
    consumed = sum(axes)
    if consumed > ndim:
        raise IndexError(f"too many indices: array is {ndim}-dimensional, but {consumed} were indexed")
    ellipses = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if ellipses and consumed == ndim and _any_array(parts):
        return None  # an ellipsis that stands for no axis still keeps the index arrays around it apart, says numpy
    at = ellipses[0] if ellipses else len(parts)
    parts[at : at + 1] = [WHOLE_AXIS] * (ndim - consumed)
    axes[at : at + 1] = [1] * (ndim - consumed)

    grid: list[Any] = []
    item: list[Any] = []
    axis = 0
    for part, taken in zip(parts, axes, strict=True):
        crosses = axis < grid_ndim < axis + taken
        if crosses or _is_lone_bool(part):
            return None
        in_grid = axis < grid_ndim or (part is None and axis == grid_ndim and not item)
        (grid if in_grid else item).append(part)
        axis += taken

    arrays_in_grid, arrays_in_item = _any_array(grid), _any_array(item)
    if (arrays_in_grid and (arrays_in_item or _any_int(item))) or (arrays_in_item and _any_int(grid)):
        return None
    return SplitKey(
        grid=tuple(grid),
        item=tuple(item),
        basic=not arrays_in_grid and not arrays_in_item,
        advanced_grid=arrays_in_grid,
        array_in_item=arrays_in_item,
        whole_items=all(isinstance(part, slice) and part == WHOLE_AXIS for part in item),
        scalar=not ellipses,
    )


def scatter(
    key: Any, grid: tuple[int, ...], item: tuple[int, ...]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns for each element that a numpy key asks for the flat index of its cell, and its flat index in the item."""
    shape = grid + item
    cells = np.arange(prod(grid)).reshape(grid + (1,) * len(item))
    inside = np.arange(prod(item)).reshape(item)
    parts = tuple(_normal(part) for part in (key if isinstance(key, tuple) else (key,)))
    return np.broadcast_to(cells, shape)[parts], np.broadcast_to(inside, shape)[parts]


def field_names(key: Any) -> bool:
    """Whether a key names fields of a structured dtype, which numpy allows only by themselves."""
    return isinstance(key, str) or (isinstance(key, list) and bool(key) and all(isinstance(k, str) for k in key))


def _normal(part: Any) -> Any:
    """Returns a part of a key as an int, slice, None, Ellipsis or plain index array."""
    if part is None or part is Ellipsis or type(part) in (slice, int):
        return part
    if type(part) is np.ndarray and part.dtype.kind in "iub" and part.ndim:
        return part
    if isinstance(part, bool | np.bool_):
        return np.asarray(part)
    try:
        return operator.index(part)
    except TypeError:
        pass
    read = getattr(part, "read", None)  # an index array may be compressed itself
    array = np.asarray(part if read is None else read())
    if array.size == 0 and not isinstance(part, np.ndarray):
        array = array.astype(np.intp)
    if array.dtype.kind not in "iub":
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays "
            "are valid indices"
        )
    return array


def _is_integer_array(part: Any) -> bool:
    return type(part) is np.ndarray and part.dtype.kind in "iu" and part.ndim > 0


def _axes(part: Any) -> int:
    """Returns how many axes such a part takes up."""
    if part is None or part is Ellipsis:
        return 0
    if isinstance(part, np.ndarray) and part.dtype == np.bool_:
        return part.ndim
    return 1


def _is_lone_bool(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype == np.bool_ and part.ndim == 0


def _any_array(parts: list[Any]) -> bool:
    return any(isinstance(part, np.ndarray) for part in parts)


def _any_int(parts: list[Any]) -> bool:
    return any(isinstance(part, int) for part in parts)
