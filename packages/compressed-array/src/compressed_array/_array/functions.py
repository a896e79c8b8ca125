"""What each numpy function does with a compressed array. Every function that can be overridden is in one of the lists.

*Shaped*    numpy's own code, which slices and transposes, runs on the compressed array and stays lazy where it can.
*Streamed*  reductions, done a block at a time (`reductions`).
*Own*       written here, because numpy's code would look at the table or make the wrong kind of array.
*In place*  changes its first argument: done on the decoded items, which are then written back.
*Refused*   cannot be done honestly; the error names what to use.
*Decoded*   everything else: numpy gets the decoded items and answers with a plain array.

A function that is in none of them is refused, and a test fails for it: nobody has looked at what it would do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from compressed_array._array import reductions
from compressed_array._array.numpy_functions import DECODED, IN_PLACE, REFUSED_FUNCTIONS, SHAPED
from compressed_array._runtime.types import is_compressed
from compressed_array.errors import UnsupportedOperationError

Function = Callable[..., Any]
HANDLED: dict[Function, Function] = {}


def handles(*functions: Function) -> Callable[[Function], Function]:
    """Registers what is done instead of some numpy functions."""

    def register(handler: Function) -> Function:
        HANDLED.update(dict.fromkeys(functions, handler))
        return handler

    return register


def qualified_name(function: Function) -> str:
    """Returns the name by which the lists know a numpy function."""
    return f"{function.__module__}.{function.__name__}"


def call_function(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Does what `__array_function__` has to."""
    name = qualified_name(function)
    if function in HANDLED:
        answer = HANDLED[function](*args, **kwargs)
        return decoded_call(function, args, kwargs) if answer is NotImplemented else answer
    if function in METHODS and args and is_compressed(args[0]):
        return getattr(args[0], METHODS[function])(*args[1:], **kwargs)
    if name in SHAPED:
        return function._implementation(*args, **kwargs)  # type: ignore[attr-defined]  # numpy's, before dispatch
    if name in IN_PLACE:
        target, *rest = args or (kwargs.pop(next(n for n in ("dst", "arr", "a") if n in kwargs)),)
        return changed_in_place(target, lambda plain, *rest, **more: function(plain, *rest, **more), *rest, **kwargs)
    if name in DECODED or function in METHODS:
        return decoded_call(function, args, kwargs)
    raise UnsupportedOperationError(
        REFUSED_FUNCTIONS.get(name, f"{name} is not known to work on a compressed array; pass it a.read()")
    )


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Does what `__array_ufunc__` has to."""
    if method == "at":
        return changed_in_place(inputs[0], ufunc.at, *inputs[1:])
    if method == "reduce" and ufunc in reductions.FOLDED_BY_BLOCKS and _plain_reduction(inputs[0], kwargs):
        return reductions.reduce(inputs[0].cells, ufunc, **{"axis": 0, **kwargs})
    return decoded_call(getattr(ufunc, method), inputs, kwargs)


def decoded_call(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a function with decoded items. The answer is written to an `out` that is compressed."""
    args, kwargs = _out_by_name(function, args, kwargs)
    out = kwargs.pop("out", None)
    outs = out if isinstance(out, tuple) else (out,)
    args, kwargs = decoded(args), decoded(kwargs)
    if out is None:
        return function(*args, **kwargs)
    targets = [o for o in outs if is_compressed(o)]
    with ExitStack() as stack:
        for epochs in sorted({o.store.epochs for o in targets}, key=lambda epochs: epochs.serial):
            stack.enter_context(epochs.writing)
        plain = tuple(o.read() if is_compressed(o) else o for o in outs)
        answer = function(*args, **kwargs, out=plain if isinstance(out, tuple) else plain[0])
        for target, filled in zip(outs, plain, strict=True):
            if is_compressed(target):
                target[...] = filled
    answers = answer if isinstance(answer, tuple) else (answer,)
    given = tuple(a if o is None else o for a, o in zip(answers, outs, strict=True))
    return given if isinstance(answer, tuple) else given[0]


def changed_in_place(array: Any, change: Function, *args: Any, **kwargs: Any) -> Any:
    """Calls `change` with the decoded items and writes them back, with no other writer in between."""
    args, kwargs = decoded(args), decoded(kwargs)
    if not is_compressed(array):
        return change(array, *args, **kwargs)
    with array.store.epochs.writing:
        plain = array.read()
        answer = change(plain, *args, **kwargs)
        array[...] = plain
    return answer


def read_only(array: Any) -> Any:
    """Returns the same array, protected from writes that would not reach where it came from."""
    array.flags.writeable = False
    return array


def decoded(value: Any) -> Any:
    """Returns a value with every compressed array in it decoded, read-only, so that a write to it fails."""
    if is_compressed(value):
        return read_only(value.read())
    if isinstance(value, list):
        return [decoded(part) for part in value]
    if isinstance(value, tuple):
        return tuple(decoded(part) for part in value)
    if type(value) is dict:
        return {name: decoded(part) for name, part in value.items()}
    return value


def _out_by_name(
    function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the same arguments, with an `out` that was given by its position given by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some of numpy's C functions do not say; an `out` among `args` is then read-only
        return args, dict(kwargs)
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    at = names.index("out") if "out" in names else len(args)
    if at >= len(args):
        return args, dict(kwargs)
    return args[:at], {**dict(zip(names[at:], args[at:], strict=False)), **kwargs}


def _plain_reduction(array: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a reduction has only arguments that streaming knows, and something to reduce."""
    if not is_compressed(array) or array.size == 0 or array.dtype.names is not None:
        return False
    return kwargs.keys() <= {"axis", "dtype", "keepdims"}


# -- functions that are a method by another name

METHODS = {
    getattr(np, name): name
    for name in [
        "sum",
        "prod",
        "max",
        "min",
        "any",
        "all",
        "mean",
        "std",
        "var",
        "argmax",
        "argmin",
        "swapaxes",
        "ravel",
        "squeeze",
        "take",
    ]
} | {np.amax: "max", np.amin: "min"}


@handles(np.transpose)
def _transpose(a: Any, axes: Any = None) -> Any:
    return a.transpose(axes)


@handles(np.reshape)
def _reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: Any = None) -> Any:
    return a.reshape(shape, order=order, copy=copy)


# -- functions that look at the memory, the type or the kind of an array


@handles(np.count_nonzero)
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    if not _plain_reduction(a, {}):
        return NotImplemented
    return reductions.count_nonzero(a.cells, axis, keepdims)


@handles(np.ptp)
def _ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    if not _plain_reduction(a, {}) or out is not None:
        return NotImplemented
    keep = keepdims is not np._NoValue and bool(keepdims)
    return np.subtract(a.max(axis=axis, keepdims=keep), a.min(axis=axis, keepdims=keep))


@handles(np.array_equal)
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    compressed, other = (a1, a2) if is_compressed(a1) else (a2, a1)
    if not is_compressed(other):
        other = np.asarray(other)
    if compressed.shape != other.shape:
        return False
    return reductions.equal(compressed.cells, lambda box: decoded(other[(*box, ...)]), equal_nan)


@handles(np.zeros_like, np.empty_like)
def _zeros_like(
    prototype: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    if not subok:
        return np.zeros(prototype.shape if shape is None else shape, prototype.dtype if dtype is None else dtype)
    return prototype.like(shape, dtype)


@handles(np.full_like)
def _full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    answer = _zeros_like(a, dtype, order, subok, shape)
    answer[...] = decoded(fill_value)
    return answer


@handles(np.ones_like)
def _ones_like(
    a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **device: Any
) -> Any:
    return _full_like(a, 1, dtype, order, subok, shape)


@handles(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    return np.broadcast_to(array.read(), shape)


@handles(np.result_type)
def _result_type(*arrays_and_dtypes: Any) -> Any:
    return np.result_type(*(a.dtype if is_compressed(a) else a for a in arrays_and_dtypes))


@handles(np.min_scalar_type)
def _min_scalar_type(a: Any, /) -> Any:
    return a.dtype if a.ndim else np.min_scalar_type(a.read())


@handles(np.shares_memory, np.may_share_memory)
def _shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """Whether a write to one shows in the other: whether they are views of the same cells."""
    both = is_compressed(a) and is_compressed(b)
    return both and bool(np.shares_memory(a.cells.numbers, b.cells.numbers))


@handles(np.array_repr, np.array_str)
def _repr(a: Any, *formatting: Any, **more: Any) -> str:
    return repr(a)
