"""`Packing`: what full groups of `delta-zstd` go through, and the dictionaries for it, learnt from the groups."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.epochs import Epochs
from compressed_array._runtime.payloads import Payloads
from compressed_array._stores.frames.tables import Frames
from compressed_array.codecs.zstd import Zstd

LEVEL = 2
# A dictionary is learnt early, and once more, a larger one, from more groups: from how many, and of how many bytes.
# Of each group, how many bytes are looked at, and taken over as a whole.
DICTIONARIES = ((32, 16 * 1024), (512, 112 * 1024))
FEWEST_SAMPLES, MOST_SAMPLES = DICTIONARIES[0][0], DICTIONARIES[-1][0]
SAMPLE_BYTES, SEGMENT_BYTES = 4096, 1000
PATIENCE = 3  # times that a dictionary did not pay for itself, after which none is expected any more


class Packing:
    """The codecs of one store's groups: all of `frames.codecs`, of which new groups go through the last one learnt."""

    def __init__(self, frames: Frames, epochs: Epochs) -> None:
        self._frames, self._epochs = frames, epochs
        self.codec = 0  # the one in use, by its number
        self._tried, self._too_few, self._not_before, self._is_pending = 0, 0, 0, False
        frames.codecs.append(Zstd(LEVEL))

    @property
    def expects_dictionary(self) -> bool:
        """Whether groups will soon take less than by the codec in use: there are too few yet to learn from."""
        return self._tried == 0 and self._too_few < PATIENCE

    def resume(self) -> None:
        """Go on with the codecs that a restored store came with."""
        self.codec = self._tried = max(len(self._frames.codecs) - 1, 0)

    def learn(self, groups: npt.NDArray[np.int64]) -> None:
        """Learn a dictionary, if these are enough groups and have something in common."""
        if self._is_pending or self._tried == len(DICTIONARIES):
            return
        enough, nbytes = DICTIONARIES[self._tried]
        alive = int(np.count_nonzero(self._frames.groups.table["references"]))
        if len(groups) < enough or alive < self._not_before:
            return
        places = self._frames.groups.table["where"][groups].tolist()
        samples = [self._frames.group_bytes(where)[:SAMPLE_BYTES].copy() for where in places]
        try:
            codec = Zstd.train(samples, LEVEL, nbytes, SEGMENT_BYTES)
        except ValueError:  # frames hardly change, or zstd finds nothing in common
            self._tried += 1
            return
        if not self._pays(codec, samples, alive):
            self._too_few, self._not_before = self._too_few + 1, 4 * alive  # learning takes a while
            return
        self._tried += 1
        self._frames.codecs.append(codec)
        # Readers who are about do not know of it, so groups they may meet are packed with it when they have left.
        self._is_pending = True
        self._epochs.retire(partial(self._use, len(self._frames.codecs) - 1))

    def drop_dictionary(self, codec: int) -> None:
        """Give up a codec's dictionary, of which no group and no reader has need; the first codec has none."""
        self._frames.codecs[codec] = self._frames.codecs[0]

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
