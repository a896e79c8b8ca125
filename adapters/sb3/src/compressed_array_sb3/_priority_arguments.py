"""Checks of the arguments of buffers and algorithms with priorities, in this adapter and in the one for SBX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array.sampling import Ring
from compressed_array_sb3.errors import BufferOptionError


def check_exponents(alpha: float, epsilon: float) -> None:
    """Refuses an `alpha` or `epsilon` by which errors give no priorities."""
    try:
        are_some = bool(0 <= alpha < np.inf and 0 <= epsilon < np.inf)
    except TypeError:
        are_some = False
    if not are_some:
        raise BufferOptionError(f"alpha and epsilon are numbers from 0 on, and these are {alpha!r} and {epsilon!r}")


def exponents_of(buffer: Any) -> dict[str, Any]:
    """Returns the arguments by which a buffer draws by priority; none if it has no priorities."""
    if getattr(buffer, "alpha", None) is None:
        return {}
    return {name: getattr(buffer, name) for name in ("alpha", "beta", "epsilon")}


def checked_beta(beta: float, when: str = "") -> float:
    """Returns a `beta` that makes weights of priorities, or raises; `when` tells the error message at what time."""
    try:
        is_one = bool(0 <= beta < np.inf)
    except TypeError:  # a schedule, say, where there is none
        is_one = False
    if not is_one:
        raise BufferOptionError(f"beta is a number that is not negative, and{when} it is {beta}")
    return beta


def beta_at(beta: float | Callable[[float], float], progress_remaining: float) -> float:
    """Returns a `beta`, or the value of a schedule for it at the progress that remains, which goes from 1 to 0.

    SB3's goes below 0 if the last rollout takes more steps than were asked for; a schedule then stays at its end.
    """
    if not callable(beta):
        return checked_beta(beta)
    left = max(progress_remaining, 0.0)
    return checked_beta(beta(left), f" with {left:g} of the training to go")


def split_options(arguments: dict[str, Any], options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits a buffer's options into those named in `arguments`, with the arguments that were given, and the rest."""
    told = {name: value for name, value in arguments.items() if value is not None}
    twice = sorted(told.keys() & options.keys())
    if twice:
        names = " and ".join(twice)
        raise BufferOptionError(f"{names} came as arguments and in replay_buffer_kwargs: give each once")
    told |= {name: value for name, value in options.items() if name in arguments}
    return told, {name: value for name, value in options.items() if name not in arguments}


def still_held(ring: Ring, numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Returns which transitions a ring still holds, given their numbers; raises for a number that no batch has had."""
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < ring.steps * ring.lanes):
        raise IndexError("no batch of this buffer has had these indices: give those of one")
    is_held: npt.NDArray[np.bool_] = ring.is_held(numbers)
    return is_held
