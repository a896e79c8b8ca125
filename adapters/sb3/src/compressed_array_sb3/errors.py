"""The errors that the buffers raise on purpose, beside those of `compressed_array`."""

from __future__ import annotations

__all__ = [
    "BufferClassError",
    "BufferEmptyError",
    "BufferNotFullError",
    "BufferOptionError",
    "CodecLevelWarning",
    "MemoryForecastWarning",
    "ObservationError",
    "PrioritiesWarning",
    "UnweightedLossError",
]


class ObservationError(ValueError):
    """An observation that is not of the buffer's space. Nothing was stored."""


class BufferOptionError(ValueError):
    """Options that do not go together, or that no buffer has."""


class BufferClassError(BufferOptionError, AssertionError):
    """A buffer class that does not suit these observations, or this kind of algorithm.

    Also an AssertionError, which is what SB3's own buffers raise there.
    """


class BufferEmptyError(ValueError):
    """A sample was asked for before anything was added."""


class BufferNotFullError(RuntimeError):
    """A rollout was asked for before all of it was collected."""


class CodecLevelWarning(UserWarning):
    """A level of a `compression_method` that its codec does not have. The nearest one that it has is used."""


class MemoryForecastWarning(UserWarning):
    """At the rate seen so far, a buffer will not fit into memory once it is full."""


class PrioritiesWarning(UserWarning):
    """A prioritized buffer that is never given errors: it draws like an ordinary buffer, only slower."""


class UnweightedLossError(RuntimeError):
    """A `train` whose loss could not be given the weights of its batch, because of the way it computes that loss.

    Args:
        what: What this `train` does, or fails to do, as a clause of the message.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"this algorithm's train() cannot learn by priorities: {what}. It has to take one mean over the rows of "
            "what it computes from rewards, as the DQN of stable-baselines3 2.9 and the QRDQN of sb3-contrib do; in a "
            "loop of your own, multiply by samples.weights and call update_priorities"
        )
