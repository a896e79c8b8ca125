"""Records through a codec, ours or another library's: a batch in one call, and lossless or an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.payloads import Payloads
from compressed_array.abc import Codec, decode_each, encode_each
from compressed_array.errors import LossyWriteError

Records = npt.NDArray[np.uint8]


def encode_records(codec: Any, records: Records, dtype: np.dtype[Any]) -> Payloads:
    """Encodes each row, which is items of `dtype`; a payload as long as its row means that it does not shrink."""
    if isinstance(codec, Codec):
        return codec.encode_batch(records)
    payloads = encode_each(codec, _typed(records, dtype))
    # Other libraries have codecs that round or quantise, and no way to ask which; ours are tested not to.
    shrunk = np.flatnonzero(payloads.size < records.shape[1])
    back = np.empty((len(shrunk), records.shape[1]), np.uint8)
    decode_each(codec, payloads.select(shrunk), _typed(back, dtype))
    if not np.array_equal(back, records[shrunk]):
        raise LossyWriteError(f"{codec!r} does not give back the bytes it was given; use a lossless codec")
    return payloads


def decode_records(codec: Any, payloads: Payloads, out: Records, dtype: np.dtype[Any]) -> None:
    """Decodes payload i into row i, which is items of `dtype`."""
    if isinstance(codec, Codec):
        codec.decode_batch(payloads, out)
    else:
        decode_each(codec, payloads, _typed(out, dtype))


def encode_batch(codec: Any, records: Records) -> Payloads:
    """Encodes each row by the codec's own `encode_batch`, or one by one if it has none."""
    batch = getattr(codec, "encode_batch", None)
    return encode_each(codec, records) if batch is None else batch(records)


def decode_batch(codec: Any, payloads: Payloads, out: Records) -> None:
    """Decodes payload i into row i by the codec's own `decode_batch`, or one by one if it has none."""
    batch = getattr(codec, "decode_batch", None)
    if batch is None:
        decode_each(codec, payloads, out)
    else:
        batch(payloads, out)


def _typed(records: Records, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns rows as another library's codec wants them: numbers as numbers, which may help it, the rest as bytes."""
    return records.view(dtype) if dtype.kind in "biufc" else records
