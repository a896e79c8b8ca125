"""The replay memories that are compared: each is filled step by step, and read in batches of torch tensors.

`add` and `sample` are what a training loop calls; `pair` is for checking what is held.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from benchmarks._ours import Buffer, Deduped, Ours
from benchmarks._peers import SB3, Cpprb, ExtraBuffers, Gather, TorchRL
from benchmarks._streams import Array, Step, Stream

THEIR_CODECS = ("zstd-3", "zstd3", "lz4-frame/1", "rle-jit")
OUR_CODECS = ("delta", "delta-zstd", "auto")
BUFFER = "CompressedReplayBuffer "
BUFFER_CODECS = ("auto", "delta", "delta-zstd", "zstd-3", "none")


class Contender(Protocol):
    """A ring of `rows` steps."""

    def add(self, step: Step) -> None: ...

    def sample(self, batch: int) -> Any: ...

    def pair(self, rows: Array, envs: Array) -> tuple[Array, Array]:
        """`obs` and `next_obs` of these transitions."""


REFERENCE = "SB3 optimize"
GATHER = "gather"
CONTENDERS: dict[str, Callable[[Stream, int], Contender]] = {
    REFERENCE: partial(SB3, optimized=True),
    "SB3": partial(SB3, optimized=False),
    GATHER: Gather,
    **{f"extra-buffers {codec}": partial(ExtraBuffers, codec=codec) for codec in THEIR_CODECS},
    "TorchRL": TorchRL,
    "cpprb": Cpprb,
    **{codec: partial(Ours, codec=codec) for codec in OUR_CODECS},
    **{BUFFER + codec: partial(Buffer, codec=codec) for codec in BUFFER_CODECS},
    **{f"frames in {codec}": partial(Deduped, codec=codec) for codec in ("zstd-3", "zstd3")},
}
# They hold the next observation as the observation of the row after, which at an episode's end is another episode's.
WRONG_AT_ENDS = (REFERENCE, *(f"extra-buffers {codec}" for codec in THEIR_CODECS))
