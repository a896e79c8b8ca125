"""`Packing`: the zstd codecs that pack full groups of `delta-zstd`, with dictionaries learnt from the groups."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.epochs import Epochs
from compressed_array._runtime.payloads import Payloads
from compressed_array._stores.frames.tables import FrameTables
from compressed_array.codecs.zstd import Zstd

LEVEL = 2
DICTIONARIES = ((32, 16 * 1024), (512, 112 * 1024))  # groups to learn from, bytes to make: early, and once more, larger
FEWEST_LEARNT_FROM, MOST_LEARNT_FROM = DICTIONARIES[0][0], DICTIONARIES[-1][0]  # groups
LEARNT_BYTES = 4096  # of each group that a dictionary is learnt from
SEGMENT_BYTES = 1000  # the length of the pieces of groups that a dictionary is put together from
MOST_FAILURES = 3  # dictionaries that did not pay for themselves, after which none is expected any more


class Packing:
    """The codecs of one store's groups: all of `frames.codecs`, of which new groups go through the last one learnt."""

    def __init__(self, frames: FrameTables, epochs: Epochs) -> None:
        self._frames, self._epochs = frames, epochs
        self.codec = 0  # the one in use, by its number
        self._tried, self._failures, self._not_before, self._is_pending = 0, 0, 0, False
        frames.add_codec(Zstd(LEVEL))

    @property
    def expects_dictionary(self) -> bool:
        """Whether a first dictionary may soon make groups smaller: there are too few yet to learn it from."""
        return self._tried == 0 and self._failures < MOST_FAILURES

    def resume(self) -> None:
        """Goes on with the codecs that a restored store came with."""
        self.codec = self._tried = max(len(self._frames.codecs) - 1, 0)

    def learn(self, groups: npt.NDArray[np.int64]) -> None:
        """Learns a dictionary, if these are enough groups and have something in common."""
        if self._is_pending or self._tried == len(DICTIONARIES):
            return
        enough, nbytes = DICTIONARIES[self._tried]
        alive = int(np.count_nonzero(self._frames.groups.table["uses"]))
        if len(groups) < enough or alive < self._not_before:
            return
        places = self._frames.groups.table["where"][groups].tolist()
        samples = [self._frames.group_bytes(where)[:LEARNT_BYTES].copy() for where in places]
        try:
            codec = Zstd.train(samples, LEVEL, nbytes, SEGMENT_BYTES)
        except ValueError:  # frames hardly change, or zstd finds nothing in common
            self._tried += 1
            return
        if not self._pays(codec, samples, alive):
            self._failures, self._not_before = self._failures + 1, 4 * alive  # learning takes a while
            return
        self._tried += 1
        number = self._frames.add_codec(codec)
        # Readers who are about do not know of it, so groups they may meet are packed with it when they have left.
        self._is_pending = True
        self._epochs.retire(partial(self._use, number))

    def _pays(self, codec: Zstd, samples: list[npt.NDArray[np.uint8]], alive: int) -> bool:
        """Whether a dictionary saves more, in the groups that are there, than it takes itself."""
        parts = Payloads.from_parts(samples)
        with_it, without = codec.encode_parts(parts), self._frames.codecs[self.codec].encode_parts(parts)
        calls = codec.calls()
        if calls is not None:
            _ = calls.decompressor  # which makes what reading takes, and that counts
        saved = int(np.minimum(without.size, parts.size).sum() - np.minimum(with_it.size, parts.size).sum())
        return saved / len(samples) * alive > codec.nbytes

    def _use(self, codec: int) -> None:
        self.codec, self._is_pending = codec, False
