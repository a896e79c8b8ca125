"""Items to measure or to convert, out of a file: `.npy`, `.npz`, `.ca`, a recording, or a video.

An array of a `.npy` file is mapped and not read, so that only what is looked at takes memory. Nothing is unpickled.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import compressed_array as ca
from compressed_array._cli.failures import DataError, MissingLibraryError, UsageError
from compressed_array._cli.kinds import Kind, kind_of
from compressed_array._cli.output import complain, counted, with_article
from compressed_array.recording import load

MOST_BYTES = 2**28  # of a video, or of what has to be decoded to be measured


@dataclass(frozen=True, eq=False)
class Part:
    """One array of a source: how many of its axes are an item's, and the code that reads it."""

    name: str
    array: Any  # plain or compressed
    item_ndim: int
    code: str

    @property
    def sample(self) -> Any:
        """The first items, as a plain array."""
        if not isinstance(self.array, ca.CompressedArray):
            return self.array
        rows = max(MOST_BYTES // max(self.array[:1].nbytes, 1), 1)
        return self.array.read(slice(0, rows))


def literal(text: str) -> str:
    """Returns a text as it is written in Python, between double quotes if that is all the same."""
    written = repr(text)
    return written if '"' in text or "\\'" in written else f'"{written[1:-1]}"'


def read_parts(path: Path, item_ndim: int | None, *, whole: bool = False) -> list[Part]:
    """Returns the arrays in a file; raises if there are none that can be compressed.

    Of a long video the first frames are enough to measure, and of a recording its frames, unless it is to be had whole.
    """
    kind = kind_of(path)
    if kind is Kind.VIDEO:
        video = _video(path, whole=whole)
        found = [("", video, f"iio.imread({literal(str(path))})")]
    elif kind is Kind.ARRAY:
        found = [("", ca.load(path), f"ca.load({literal(str(path))})")]
    elif kind is Kind.RECORDING:
        found = list(_of_recording(path, whole=whole))
    elif kind in (Kind.NPY, Kind.NPZ):
        found = list(_of_numpy(path, kind))
    else:
        what = with_article(kind)
        raise UsageError(f"{path}: {what} has no items to measure; `compressed-array inspect` says what it holds")
    return [Part(name, array, item_axes(path, name, array, item_ndim), code) for name, array, code in found]


def item_axes(path: Path, name: str, array: Any, asked: int | None) -> int:
    """Returns how many axes an item has; raises where there are no items to count, or of no such dtype."""
    what = f"{path}: {name!r}" if name else str(path)
    if array.dtype.hasobject:
        raise DataError(f"{what} is of dtype object, which cannot be compressed; save it as an array of numbers")
    if asked is not None and not 0 <= asked < max(array.ndim, 1):
        axes = counted(array.ndim, "axis", "axes")
        raise UsageError(f"{what} has {axes}, so that --item-ndim is from 0 to {max(array.ndim - 1, 0)}")
    if asked is not None:
        return asked
    return len(array.item_shape) if isinstance(array, ca.CompressedArray) else max(array.ndim - 1, 0)


def measurable(parts: list[Part]) -> list[Part]:
    """Returns the arrays that have items to measure, and says which are left out; raises if none has any."""
    kept = [part for part in parts if part.array.ndim and part.array.size and part.array.itemsize]
    for part in parts:
        if part not in kept:
            name = f"{part.name!r}" if part.name else "the array"
            problem = f"{name} of shape {part.array.shape} has no items to measure"
            if not kept:
                raise DataError(f"{problem}; give one with some")
            complain(f"{problem}, and is left out")
    return kept


def _of_numpy(path: Path, kind: Kind) -> Iterator[tuple[str, Any, str]]:
    try:
        if kind is Kind.NPY:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
            yield "", mapped, f'np.load({literal(str(path))}, mmap_mode="r")'
            return
        with np.load(path, allow_pickle=False) as file:
            for name in file.files:
                array = file[name]
                if not isinstance(array, np.ndarray):  # numpy gives the bytes of what does not begin as an array does
                    raise DataError(f"{path}: {name!r} is no array of numpy's")
                yield name, array, f"np.load({literal(str(path))})[{literal(name)}]"
    except (ValueError, EOFError, OverflowError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            raise DataError(
                f"{path}: an array of dtype object, which cannot be compressed; save it as an array of numbers"
            ) from None
        raise DataError(f"{path}: numpy cannot read it, it was changed or cut short ({error})") from None


def _of_recording(path: Path, *, whole: bool) -> Iterator[tuple[str, Any, str]]:
    recording = load(path)
    features = recording.features
    for name in recording.names if whole or not recording.has_frames else ["frames"]:
        where = f"features[{literal(name)}]" if name in features else name
        values = features[name] if name in features else getattr(recording, name)
        yield name, values, f"recording.load({literal(str(path))}).{where}"


def _video(path: Path, *, whole: bool) -> Any:
    try:
        import imageio.v3 as iio
    except ImportError:
        raise MissingLibraryError("reading videos", "imageio", "'compressed-array[video]'") from None
    frames: list[Any] = []
    try:
        for frame in iio.imiter(path):
            if frames and frame.shape != frames[0].shape:
                raise DataError(f"{path}: frames {len(frames) - 1} and {len(frames)} are not of one shape")
            frames.append(np.asarray(frame))
            if len(frames) * frames[0].nbytes >= MOST_BYTES:
                if whole:
                    raise DataError(
                        f"{path}: more than {MOST_BYTES >> 20} MiB of frames, which is more than is converted at once; "
                        "cut the video into parts"
                    )
                break
    except ImportError as error:
        raise MissingLibraryError(f"{path.suffix} ({error})", "a plugin", "'compressed-array[video]'") from None
    except (DataError, MemoryError):
        raise
    except Exception as error:  # each plugin has errors of its own, SyntaxError among them
        # ffmpeg says how it was built, line after line, before it says what is wrong.
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
        raise DataError(f"{path}: imageio cannot read it ({reason})") from None
    if not frames:
        raise DataError(f"{path}: there is no frame in it")
    return np.stack(frames)
