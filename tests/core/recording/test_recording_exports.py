"""Episodes as videos and for `np.load`: what is read back is what was recorded."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compressed_array.recording import CompressedRecordBuffer, FramelessRecordBuffer, RecordBuffer, RecordingError

KEEPING = [RecordBuffer, CompressedRecordBuffer]


def game(cls: Any, frames: Any, **options: Any) -> Any:
    buffer = cls(**options)
    for i, frame in enumerate(frames):
        buffer.add(frame, i, i % 3, {"file": i, "allow_pickle": i / 2}, done=i == len(frames) - 1)
    return buffer.episode(-1)


def squares(count: int, shape: tuple[int, ...] = (48, 64, 3)) -> list[np.ndarray]:
    """A bright square that goes its way over a dark ground."""
    frames = np.full((count, *shape), 20, np.uint8)
    for i, frame in enumerate(frames):
        frame[8:24, 2 * i : 2 * i + 16] = (250, 40, 120)[: shape[-1]] if len(shape) == 3 else 250
    return list(frames)


@pytest.mark.parametrize("cls", [*KEEPING, FramelessRecordBuffer])
def test_an_episode_is_written_for_numpy(cls: Any, tmp_path: Path) -> None:
    episode = game(cls, squares(40), size=25)
    episode.save_npz(tmp_path / "one.npz")
    with np.load(tmp_path / "one.npz", allow_pickle=False) as read:
        names = ["rewards", "actions", "file", "allow_pickle"] + ["frames"] * (cls is not FramelessRecordBuffer)
        assert sorted(read.files) == sorted(names)
        if "frames" in names:
            np.testing.assert_array_equal(read["frames"], squares(40)[15:])
        np.testing.assert_array_equal(read["rewards"], np.arange(15.0, 40))
        np.testing.assert_array_equal(read["file"], np.arange(15, 40))
        assert read["actions"].dtype == np.int64


def test_frames_are_decoded_some_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("compressed_array.recording._episode.BLOCK", 3 * 48 * 64 * 3)
    episode = game(CompressedRecordBuffer, squares(10))
    np.testing.assert_array_equal(np.stack(list(episode.iter_frames())), squares(10))
    episode.save_npz(tmp_path / "one.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "one.npz")["frames"], squares(10))


@pytest.mark.parametrize("method", ["save_npz", "save_video"])
def test_a_folder_that_is_missing_is_named(method: str, tmp_path: Path) -> None:
    if method == "save_video":
        pytest.importorskip("imageio")
    path = tmp_path / "none" / "one.gif"
    with pytest.raises(FileNotFoundError) as error:
        getattr(game(RecordBuffer, squares(2)), method)(path)
    assert error.value.filename in (str(path), str(path.parent))


def test_what_no_video_is_called_is_said(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    for name in ("v", "v.xyz"):
        with pytest.raises(RecordingError, match=r"\.gif or \.mp4"):
            game(RecordBuffer, squares(2)).save_video(tmp_path / name)
    with pytest.raises(ValueError, match="above 0, not -1"):
        game(RecordBuffer, squares(2)).save_video(tmp_path / "v.mp4", fps=-1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cls", KEEPING)
@pytest.mark.parametrize("shape", [(48, 64, 3), (48, 64), (47, 63, 1)])
def test_a_gif_shows_every_frame(cls: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v3")
    frames = squares(12, shape)
    game(cls, frames).save_video(tmp_path / "game.gif", fps=20)
    read = imageio.imread(tmp_path / "game.gif", index=None, mode="RGB")
    assert read.shape == (12, *shape[:2], 3)
    expected = np.stack(frames).reshape(12, *shape[:2], -1)
    assert np.abs(read.astype(int) - expected).max() <= 8  # of 256 colours
    assert imageio.immeta(tmp_path / "game.gif")["duration"] == 50


@pytest.mark.parametrize("cls", KEEPING)
@pytest.mark.parametrize("shape", [(48, 64, 3), (47, 63)])
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # its reader leaves pipes to the collector
def test_a_video_shows_every_frame(cls: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v2")
    pytest.importorskip("imageio_ffmpeg")
    frames = squares(12, shape)
    game(cls, frames).save_video(tmp_path / "game.mp4", fps=20)
    with imageio.get_reader(tmp_path / "game.mp4") as reader:
        read = np.stack([np.asarray(frame) for frame in reader])
        assert reader.get_meta_data()["fps"] == 20
    del reader
    gc.collect()
    assert read.shape == (12, 48, 64, 3)
    shown = read[:, : shape[0], : shape[1]].astype(int)
    assert np.abs(shown - np.stack(frames).reshape(12, *shape[:2], -1)).mean() < 12  # lossy, as videos are


def test_other_frames_are_made_pictures_by_a_function(tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v3")
    stacks = [np.stack([np.full((16, 20), 10 * i + j, np.uint8) for j in range(4)]) for i in range(6)]
    episode = game(CompressedRecordBuffer, stacks)
    with pytest.raises(RecordingError, match=r"shape \(4, 16, 20\) is no picture; pass picture="):
        episode.save_video(tmp_path / "game.gif")
    assert not list(tmp_path.iterdir())
    (tmp_path / "game.gif").write_bytes(b"as it was")
    shown = iter(squares(3))
    with pytest.raises(StopIteration):
        episode.save_video(tmp_path / "game.gif", picture=lambda frame: next(shown))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"as it was"]
    episode.save_video(tmp_path / "game.gif", picture=lambda frame: frame[-1])
    read = imageio.imread(tmp_path / "game.gif", index=None, mode="RGB")
    assert np.abs(read[:, 0, 0, 0].astype(int) - [3, 13, 23, 33, 43, 53]).max() <= 4
    for frames in (np.zeros((5, 3, 16, 20), np.uint8), np.eye(16, dtype=bool)[None].repeat(5, 0)):
        game(RecordBuffer, list(frames)).save_video(tmp_path / "game.gif")


def test_how_opaque_a_picture_is_is_left_out(tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v3")
    frames = squares(5)
    game(RecordBuffer, [np.dstack((frame, np.full((48, 64), 9, np.uint8))) for frame in frames]).save_video(
        tmp_path / "a.gif"
    )
    game(RecordBuffer, frames).save_video(tmp_path / "b.gif")
    np.testing.assert_array_equal(imageio.imread(tmp_path / "a.gif"), imageio.imread(tmp_path / "b.gif"))


@pytest.mark.parametrize("name", ["whole.mp4", "whole.gif"])
def test_a_disk_that_is_full_leaves_the_video_that_was_there(name: str, tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    resource = pytest.importorskip("resource")
    episode, path = game(RecordBuffer, squares(12)), tmp_path / name
    episode.save_video(path)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
        with pytest.raises((RecordingError, OSError)):
            episode.save_video(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_goes_wrong_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("imageio")
    episode = game(RecordBuffer, squares(6))
    shown = iter(squares(3))
    with pytest.raises(StopIteration):
        episode.save_video(tmp_path / "game.gif", picture=lambda frame: next(shown))
    with pytest.raises(ValueError, match="frames in a second"):
        episode.save_video(tmp_path / "game.gif", fps=0)
    with pytest.raises(RecordingError, match="has no frames"):
        game(FramelessRecordBuffer, squares(2)).save_video(tmp_path / "game.gif")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "missing"), [("game.gif", "imageio"), ("game.mp4", "imageio_ffmpeg")])
def test_a_missing_library_is_named_with_its_extra(name: str, missing: str, tmp_path: Path) -> None:
    if missing == "imageio_ffmpeg":
        pytest.importorskip("imageio")
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import numpy as np; from compressed_array.recording import RecordBuffer\n"
        "game = RecordBuffer(); game.add(np.zeros((8, 8), np.uint8), 0, 0)\n"
        f"game.episode(0).save_video({name!r})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "ImportError: a video needs imageio" in run.stderr
    assert "pip install 'compressed-array[video]'" in run.stderr
    assert not (tmp_path / name).exists()
