"""`save_video`: frames as a GIF or a video, by imageio, which is imported when somebody asks for one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import load
from compressed_array.errors import RecordingError

Picture = npt.NDArray[np.uint8]


def save_video(
    path: str | os.PathLike[str],
    frames: Iterator[npt.NDArray[Any]],
    fps: float,
    picture: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] | None,
) -> None:
    """Write frames to a file, which takes the place of one that is there once all is written."""
    if not fps > 0:
        raise ValueError(f"a video has more than {fps} frames in a second")
    target = Path(path)
    # Beside it, with its suffix, by which imageio knows what to write.
    temporary = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    writer: Any = None
    try:
        for frame in frames:
            shown = as_picture(frame if picture is None else np.asarray(picture(frame)))
            if writer is None:
                writer = _writer(temporary, fps)
            writer.append_data(shown if target.suffix.lower() == ".gif" else _even(shown))
        if writer is None:
            raise RecordingError("there are no frames to make a video of")
        writer.close()
        temporary.replace(target)
    except BaseException:
        if writer is not None:
            writer.close()
            temporary.unlink(missing_ok=True)
        raise


def as_picture(frame: npt.NDArray[Any]) -> Picture:
    """Returns a frame as a picture of shape (height, width) or (height, width, 3)."""
    shown = frame.astype(np.uint8) * np.uint8(255) if frame.dtype == bool else frame
    if shown.dtype == np.uint8 and 0 not in shown.shape:
        if shown.ndim == 2:
            return shown
        if shown.ndim == 3 and shown.shape[2] in (1, 3):
            return shown[..., 0] if shown.shape[2] == 1 else shown
        if shown.ndim == 3 and shown.shape[0] in (1, 3):
            return shown[0] if shown.shape[0] == 1 else shown.transpose(1, 2, 0)
    raise RecordingError(
        f"a frame of {frame.dtype} and shape {frame.shape} is no picture; pass picture=, which makes one of it: uint8 "
        "of shape (height, width), (height, width, 3) or (3, height, width). For stacks, channels first, that is "
        "picture=lambda frame: frame[-1]"
    )


def _writer(target: Path, fps: float) -> Any:
    missing = "a video needs imageio{}: pip install 'compressed-array[video]'"
    try:
        imageio = load("imageio.v2")
    except ImportError as error:
        raise ImportError(missing.format("")) from error
    if target.suffix.lower() == ".gif":
        return imageio.get_writer(target, mode="I", duration=1000 / fps, loop=0)
    try:
        load("imageio_ffmpeg")
    except ImportError as error:
        raise ImportError(missing.format(" and imageio-ffmpeg, or the name of a .gif")) from error
    # It would stretch pictures whose sides are no multiples of sixteen otherwise.
    return imageio.get_writer(target, format="FFMPEG", mode="I", fps=fps, macro_block_size=1)


def _even(picture: Picture) -> Picture:
    """Returns a picture with an even number of rows and columns, which videos of half the colours need."""
    odd = [(0, length % 2) for length in picture.shape[:2]]
    padded: Picture = np.pad(picture, [*odd, (0, 0)][: picture.ndim], mode="edge")
    return padded
