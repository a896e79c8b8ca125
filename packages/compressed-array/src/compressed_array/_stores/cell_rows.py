"""Rows of bytes on their way into a store of single items, and out of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native
from compressed_array._runtime.payloads import NATIVE_FROM, Payloads
from compressed_array._runtime.threads import over_rows
from compressed_array._stores.protocol import Records


def nonzero_rows(rows: Records) -> npt.NDArray[np.bool_]:
    """Returns which rows are not all zeros; a zero item is not written, since that is how an unwritten one reads."""
    nonzero = np.asarray(rows[:, ::509].any(axis=1))  # almost every other row shows it in a few bytes
    for i in np.flatnonzero(~nonzero):
        nonzero[i] = rows[i].any()
    return nonzero


def copy_rows(payloads: Payloads, out: Records) -> None:
    """Copies payloads that are a row long each into the rows of `out`."""
    kernels = native("_runtime.numba_tools") if len(out) >= NATIVE_FROM else None
    if kernels is None:
        for i in range(len(out)):
            out[i] = payloads[i]
        return
    addresses = payloads.addresses()
    # Copying a byte takes about an eighth of the time of decoding one, which is what threads are reckoned by.
    over_rows(lambda low, high: kernels.gather(addresses, out, low, high), len(out), out.nbytes // 8)
