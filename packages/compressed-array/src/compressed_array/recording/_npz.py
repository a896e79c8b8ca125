"""`save_npz`: arrays in a file for `np.load`, some of them in parts, and with any names.

`np.savez` needs all of an array in memory, and takes an array of the name `file` for the file.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from compressed_array._runtime.headers import describe_dtype
from compressed_array._runtime.replacing import replacing


def save_npz(
    path: str | os.PathLike[str],
    fields: dict[str, npt.NDArray[Any]],
    frames: Any,
    iter_frames: Callable[[], Iterator[npt.NDArray[Any]]],
) -> None:
    """Writes fields, and frames if there are any, compressed as `np.savez_compressed` does."""
    descriptions = {name: describe_dtype(array.dtype) for name, array in fields.items()}
    if frames is not None:
        descriptions["frames"] = describe_dtype(frames.dtype)
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        if frames is not None:
            with archive.open("frames.npy", "w", force_zip64=True) as entry:
                _write_header(entry, descriptions["frames"], frames.shape)
                for frame in iter_frames():
                    entry.write(np.ascontiguousarray(frame).tobytes())
        for name, array in fields.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                _write_header(entry, descriptions[name], array.shape)
                entry.write(np.ascontiguousarray(array).tobytes())


def _write_header(entry: Any, descr: Any, shape: tuple[int, ...]) -> None:
    npy_format.write_array_header_2_0(entry, {"descr": descr, "fortran_order": False, "shape": shape})
