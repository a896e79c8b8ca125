"""`save_video`: frames as a GIF or a video, by imageio, which is imported when somebody asks for one."""

from __future__ import annotations

import errno
import io
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
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
    """Writes frames to a file, which takes the place of one that is there once all is written."""
    if not fps > 0:
        raise ValueError(f"fps is a number of frames in a second, and above 0, not {fps}")
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "nothing can be written to this folder", str(target.parent))
    # Beside it, with its suffix, by which imageio knows what to write.
    temporary = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    writer: Any = None
    # A GIF is put together in memory: where a disk is full, its writer leaves a file open that cannot be closed.
    gif, count = io.BytesIO() if target.suffix.lower() == ".gif" else None, 0
    try:
        for frame in frames:
            shown = as_picture(frame if picture is None else np.asarray(picture(frame)))
            if writer is None:
                writer = _writer(temporary, fps, gif)
            _write(writer, _even(shown) if gif is None else shown, target)
            count += 1
        if writer is None:
            raise RecordingError("there are no frames to make a video of")
        _write(writer, None, target)
        if gif is None:
            _check(temporary, count, target)
        else:
            temporary.write_bytes(gif.getbuffer())
        temporary.replace(target)
    except BaseException:
        if writer is not None:
            with suppress(Exception):  # what is raised already says what went wrong
                writer.close()
            temporary.unlink(missing_ok=True)
        raise


def _write(writer: Any, shown: Picture | None, target: Path) -> None:
    """Writes a picture, or what is left to be written at the end."""
    try:
        if shown is None:
            writer.close()
        else:
            writer.append_data(shown)
    except OSError as error:
        if error.errno is not None:
            raise
        # ffmpeg's own, with all that it has printed.
        raise RecordingError(f"ffmpeg cannot write {target}: {str(error).strip().splitlines()[-1]}") from None


def _check(written: Path, count: int, target: Path) -> None:
    """Raises if not all frames can be read from a video: ffmpeg does not tell whether it could write the last ones."""
    try:
        found = load("imageio_ffmpeg").count_frames_and_secs(written)[0]
    except (RuntimeError, OSError, ValueError, IndexError):
        found = 0
    if found < count:
        raise RecordingError(
            f"{target} was not written: of {count} frames {found} can be read back. Is the disk full? Or does the name "
            "end in something else than .gif or .mp4?"
        )


def as_picture(frame: npt.NDArray[Any]) -> Picture:
    """Returns a frame as a picture of shape (height, width) or (height, width, 3), without how opaque it is."""
    shown = frame.astype(np.uint8) * np.uint8(255) if frame.dtype == bool else frame
    if shown.ndim == 3 and shown.shape[2] == 4 and shown.shape[0] > 4:
        shown = shown[..., :3]
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


def _writer(target: Path, fps: float, gif: io.BytesIO | None) -> Any:
    missing = "a video needs imageio{}: pip install 'compressed-array[video]'"
    try:
        imageio = load("imageio.v2")
    except ImportError as error:
        raise ImportError(missing.format("")) from error
    if gif is not None:
        return imageio.get_writer(gif, format="GIF", mode="I", duration=1000 / fps, loop=0)
    try:
        load("imageio_ffmpeg")
    except ImportError as error:
        raise ImportError(missing.format(" and imageio-ffmpeg, or the name of a .gif")) from error
    # It would stretch pictures whose sides are no multiples of sixteen otherwise.
    try:
        return imageio.get_writer(target, format="FFMPEG", mode="I", fps=fps, macro_block_size=1)
    except RuntimeError as error:
        raise RecordingError(
            f"a name that ends in {target.suffix!r} says no kind of video that is known; it may end in .gif or .mp4"
        ) from error


def _even(picture: Picture) -> Picture:
    """Returns a picture with an even number of rows and columns, which chroma subsampling (4:2:0) needs."""
    odd = [(0, length % 2) for length in picture.shape[:2]]
    padded: Picture = np.pad(picture, [*odd, (0, 0)][: picture.ndim], mode="edge")
    return padded
