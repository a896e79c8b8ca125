"""`inspect`, `verify` and `convert`: what they say of files is what the library says, and nothing is lost."""

from __future__ import annotations

import ipaddress
import itertools
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")

import compressed_array as ca
from compressed_array._cli.failures import DataError
from compressed_array._cli.kinds import check_archive
from core_helpers.command_line import answer, complaint, text


@pytest.fixture
def frames() -> np.ndarray:
    made = np.zeros((60, 24, 24), np.uint8)
    for i in range(60):
        made[i, i % 20 : i % 20 + 4, 8:14] = 1 + i
    return made


@pytest.fixture
def saved(tmp_path: Path, frames: np.ndarray) -> Path:
    ca.save(tmp_path / "frames.ca", ca.compress(frames, item_ndim=2, codec="delta"))
    return tmp_path / "frames.ca"


@pytest.mark.parametrize("codec", ["delta", "gzip", "none"])
def test_inspect_says_what_the_array_says(tmp_path: Path, frames: np.ndarray, codec: str) -> None:
    file = tmp_path / "a.ca"
    ca.save(file, ca.compress(frames.reshape(30, 2, 24, 24), item_ndim=2, codec=codec))
    array, said = ca.load(file), answer("inspect", file)
    about = said["arrays"][""]
    assert (tuple(about["shape"]), about["dtype"], tuple(about["item_shape"])) == ((30, 2, 24, 24), "uint8", (24, 24))
    assert (about["items"], about["written"]) == (60, 60)
    assert about["codec"] == ca.shorthand(array.codec)
    assert (about["nbytes"], about["nbytes_stored"], about["ratio"]) == (array.nbytes, array.nbytes_stored, array.ratio)
    parts = said["bytes_by_part"][""]
    header = said["file_bytes"] - sum(parts.values())
    assert 0 < header < 2000  # all else in the file is of one of the parts
    shown = text("inspect", file)
    assert "(30, 2, 24, 24) uint8" in shown
    assert "60 of (24, 24), 60 written" in shown


def test_unwritten_items_are_counted_as_such(tmp_path: Path, frames: np.ndarray) -> None:
    array = ca.zeros((100, 24, 24), np.uint8, codec="delta")
    array[:7] = frames[:7]
    ca.save(tmp_path / "a.ca", array)
    about = answer("inspect", tmp_path / "a.ca")["arrays"][""]
    assert (about["items"], about["written"]) == (100, 7)


def png(path: Path) -> np.ndarray:
    data, at, parts = path.read_bytes(), 8, {}
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        parts[kind], at = body, at + 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    assert depth == 8
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, -1)
    return rows[:, 1:].reshape(height, width, {0: 1, 2: 3}[colour])


def test_a_strip_shows_the_items(saved: Path, frames: np.ndarray, tmp_path: Path) -> None:
    said = answer("inspect", saved, "--frames", tmp_path / "strip.png")["frames"]
    strip = png(tmp_path / "strip.png")
    assert strip.shape == (said["height"], said["width"], 1)
    assert len(said["items"]) == 8
    for place, item in enumerate(said["items"]):
        assert np.array_equal(strip[:, place * 26 : place * 26 + 24, 0], frames[item])


@pytest.mark.parametrize(
    ("shape", "channels"),
    [((4, 12, 12), 1), ((12, 12, 4), 1), ((12, 12, 3), 3), ((2, 3, 12, 12), 3), ((12, 12), 1), ((5, 12, 12, 1), 1)],
)
def test_pictures_of_every_shape(tmp_path: Path, shape: tuple[int, ...], channels: int) -> None:
    items = np.random.default_rng(0).random((3, *shape)).astype(np.float32)
    np.save(tmp_path / "a.npy", items)
    assert "strip.png: 40 x 12, items 0, 1, 2" in text(
        "inspect", tmp_path / "a.npy", "--frames", tmp_path / "strip.png"
    )
    assert png(tmp_path / "strip.png").shape == (12, 40, channels)


def strip_of(folder: Path, items: np.ndarray) -> tuple[np.ndarray, str]:
    """The pictures of all of a few items, and which channels of them are shown."""
    np.save(folder / "a.npy", items)
    said = answer("inspect", folder / "a.npy", "--frames", folder / "strip.png")["frames"]
    assert said["items"] == list(range(len(items)))
    strip = png(folder / "strip.png")
    width = (strip.shape[1] + 2) // len(items)
    return np.stack([strip[:, i * width : (i + 1) * width - 2] for i in range(len(items))]), said["shown"]


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.uint16])
@pytest.mark.parametrize("channels", [2, 4])
def test_an_opaque_last_channel_is_not_shown(tmp_path: Path, channels: int, dtype: type) -> None:
    most = {np.float32: 1, np.uint16: 65535}.get(dtype, 255)
    items = (np.random.default_rng(0).random((3, 9, 12, channels)) * most).astype(dtype)
    items[0, 0, 0, :2], items[0, 0, 1, :2] = 0, most
    strip, shown = strip_of(tmp_path, items)
    assert (strip.shape, shown) == ((3, 9, 12, 1), f"the last of {channels} channels")
    items[..., -1] = most
    strip, shown = strip_of(tmp_path, items)
    assert (strip.shape, shown) == ((3, 9, 12, channels - 1), "all channels but alpha")
    np.testing.assert_allclose(strip, items[..., :-1].astype(float) * 255 / most, atol=1)
    assert "  of each all channels but alpha\n" in text(
        "inspect", tmp_path / "a.npy", "--frames", tmp_path / "strip.png"
    )


@pytest.mark.parametrize("dtype", [np.uint8, bool])
def test_a_newest_frame_of_ones_is_shown(tmp_path: Path, dtype: type) -> None:
    items = np.ones((3, 9, 12, 4), dtype)
    items[:, :3, :, :3] = 0
    strip, shown = strip_of(tmp_path, items)
    assert (strip.shape, shown) == ((3, 9, 12, 1), "the last of 4 channels")


@pytest.mark.parametrize("order", ["first", "last"])
def test_of_a_stack_of_frames_the_newest_is_shown(tmp_path: Path, order: str) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (6, 9, 12), np.uint8)
    items = np.stack([frames[i : i + 4] for i in range(3)])
    strip, _ = strip_of(tmp_path, items if order == "first" else np.moveaxis(items, 1, 3))
    np.testing.assert_array_equal(strip[..., 0], frames[3:])


def test_brightness_is_the_same_in_all_pictures(tmp_path: Path) -> None:
    levels = np.array([0, 0.25, 0.5, 1])
    for items, expected in (
        (levels, [0, 64, 128, 255]),
        (levels * 4e-3, [0, 64, 128, 255]),
        (levels - 0.5, [0, 64, 128, 255]),
        (levels * 8 + 3, [70, 116, 162, 255]),  # from zero on, which is black
        (np.int64([-(2**63), 0, 0, 2**63 - 1]), [0, 128, 128, 255]),
        (np.array([-1.7e308, 0, 0, 1.7e308]), [0, 128, 128, 255]),
        (np.array([np.nan, -np.inf, 1, np.inf]), [0, 0, 255, 255]),
        (np.float16([0, 0, 0, 0]), [0, 0, 0, 0]),
        (np.array([False, True, True, False]), [0, 255, 255, 0]),
    ):
        strip, _ = strip_of(tmp_path, np.broadcast_to(items[:, None, None], (4, 5, 7)))
        assert strip[:, 0, 0, 0].tolist() == expected
        assert (strip == strip[:, :1, :1]).all()


@pytest.mark.parametrize("shape", [(7,), (), (0, 5), (5, 0), (5, 6, 0), (0, 5, 6), (0, 4, 5, 6)])
def test_what_is_no_picture_is_said(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "a.npy", np.zeros((5, *shape)))
    line = complaint("inspect", tmp_path / "a.npy", "--frames", tmp_path / "s.png", code=2)
    assert f"items of shape {shape} and dtype float64 are no pictures" in line
    assert "leave out --frames" in line
    assert not (tmp_path / "s.png").exists()


@pytest.mark.parametrize("dtype", ["c8", "U3", "M8[s]", [("a", "i4")]])
def test_only_numbers_are_pictures(tmp_path: Path, dtype: Any) -> None:
    np.save(tmp_path / "a.npy", np.zeros((5, 6, 7), dtype))
    assert "no pictures" in complaint("inspect", tmp_path / "a.npy", "--frames", tmp_path / "s.png", code=2)


def test_a_picture_is_never_written_over_what_it_is_of(saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    assert ".png" in complaint("inspect", saved, "--frames", saved, code=2)
    assert saved.read_bytes() == data
    for name in ("strip.jpg", "strip"):
        assert ".png" in complaint("inspect", saved, "--frames", tmp_path / name, code=2)
    (tmp_path / "array.png").write_bytes(data)
    (tmp_path / "link.png").symlink_to(tmp_path / "array.png")
    for name in ("array.png", "link.png"):
        line = complaint("inspect", tmp_path / "array.png", "--frames", tmp_path / name, code=2)
        assert "another name" in line
    assert (tmp_path / "array.png").read_bytes() == data
    assert "no such folder" in complaint("inspect", saved, "--frames", tmp_path / "none" / "s.png", code=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["array.png", "frames.ca", "link.png"]


def test_a_pickle_is_opened_only_if_it_is_trusted(tmp_path: Path, frames: np.ndarray) -> None:
    mark = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (mark,)

    file = tmp_path / "buffer.pkl"
    file.write_bytes(pickle.dumps(Evil()))
    for command in ("inspect", "verify"):
        assert "--trust" in complaint(command, file, code=2)
    assert not mark.exists()
    assert "neither a compressed array nor" in complaint("inspect", file, "--trust", code=1)
    file.write_bytes(pickle.dumps(ipaddress.ip_address("::1")))
    assert "holds an ipaddress.IPv6Address" in complaint("inspect", file, "--trust", code=1)
    assert ": a pickle has no items to measure" in complaint("recommend", file, code=2)
    file.write_bytes(pickle.dumps(ca.compress(frames, codec="gzip")))
    assert answer("verify", file, "--trust")["decoded_bytes"] == frames.nbytes
    file.write_bytes(file.read_bytes()[:-100])
    assert "cut short" in complaint("verify", file, "--trust", code=1)


def test_verify_decodes_all(saved: Path, frames: np.ndarray) -> None:
    said = answer("verify", saved)
    assert said["ok"]
    assert (said["decoded_bytes"], said["checksums"], said["unchecked"]) == (frames.nbytes, "all", [])
    assert text("verify", saved) == "frames.ca: sound, a compressed array, 34.6 kB decoded\n"


def test_verify_calls_nothing_sound_that_it_cannot_know(tmp_path: Path, frames: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", frames)
    said = answer("verify", tmp_path / "a.npy")
    assert (said["arrays"], said["decoded_bytes"], said["checksums"], said["unchecked"]) == (1, 0, "none", [""])
    assert text("verify", tmp_path / "a.npy") == (
        "a.npy: a .npy file, in which nothing wrong was found\n"
        "  1 plain array, 34.6 kB: no checksum, a change goes unnoticed\n"
    )
    file = tmp_path / "a.pkl"
    file.write_bytes(pickle.dumps(ca.compress(frames, codec="gzip")))
    said = answer("verify", file, "--trust")
    assert (said["arrays"], said["decoded_bytes"], said["checksums"]) == (1, frames.nbytes, "items")
    assert text("verify", file, "--trust") == (
        "a.pkl: a pickled compressed array, in which nothing wrong was found\n"
        "  1 compressed array: every item decodes, 34.6 kB\n"
    )
    np.savez(tmp_path / "a.npz", x=frames, y=frames)
    assert text("verify", tmp_path / "a.npz") == "a.npz: sound, a .npz file, 2 arrays, 69.1 kB decoded\n"


def test_verify_reads_the_checksums_of_what_numpy_leaves_unread(tmp_path: Path, frames: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", x=frames)
    data = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(data.replace(b"(60, 24, 24)", b"(50, 24, 24)"))
    assert len(np.load(tmp_path / "a.npz")["x"]) == 50
    assert "Bad CRC-32 for file 'x.npy'" in complaint("verify", tmp_path / "a.npz", code=1)


@pytest.mark.parametrize("compressed", [False, True])
def test_an_archive_with_any_bit_changed_is_sound_in_no_other_way(tmp_path: Path, compressed: bool) -> None:
    """An array that is missing from the list of contents is missed; and what is raised has a name."""
    plain = {"x": np.arange(20, dtype=np.uint8), "y": np.zeros(9)}
    (np.savez_compressed if compressed else np.savez)(tmp_path / "a.npz", **plain)
    data = (tmp_path / "a.npz").read_bytes()
    found = 0
    for bit in range(0, 8 * len(data), 3):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        (tmp_path / "b.npz").write_bytes(changed)
        try:
            if check_archive(tmp_path / "b.npz"):
                with np.load(tmp_path / "b.npz") as arrays:
                    assert sorted(arrays) == sorted(plain)
                    assert all((arrays[name] == plain[name]).all() for name in plain)
        except DataError:
            found += 1
    assert found > len(data)


@pytest.mark.parametrize("kind", ["ca", "npy", "npz"])
def test_verify_finds_whatever_was_changed(tmp_path: Path, frames: np.ndarray, kind: str) -> None:
    whole = tmp_path / "whole.npy"
    np.save(whole, frames)
    file = tmp_path / f"a.{kind}"
    answer("convert", whole, file)
    data = file.read_bytes()
    for cut in (10, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:cut])
        line = complaint("verify", file, code=1)
        assert str(file) in line
    if kind != "npy":  # which has no checksum
        middle = len(data) // 2
        file.write_bytes(data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :])
        complaint("verify", file, code=1)


ARRAYS = {
    "frames": np.arange(5 * 6 * 7, dtype=np.uint8).reshape(5, 6, 7),
    "nan": np.array([[np.nan, -0.0], [np.inf, 1.5]], ">f8"),
    "fields": np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("ü", "f4")]),
    "empty": np.zeros((0, 3), np.int16),
    "fortran": np.asfortranarray(np.arange(24.0).reshape(4, 6)),
    "number": np.array(7),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_convert_loses_nothing(tmp_path: Path, name: str) -> None:
    array = ARRAYS[name]
    np.save(tmp_path / "0.npy", array)
    way = ["0.npy", "1.ca", "2.npz", "3.ca", "4.npy"]
    for a, b in itertools.pairwise(way):
        said = answer("convert", tmp_path / a, tmp_path / b)
        assert said["to_bytes"] == (tmp_path / b).stat().st_size
    end = np.load(tmp_path / "4.npy")
    assert (end.shape, end.dtype, end.tobytes()) == (array.shape, array.dtype, array.tobytes())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(way)


@pytest.mark.parametrize("shape", [(0, 84, 84), (5, 0)])
def test_nothing_is_converted_and_shown(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "a.npy", np.zeros(shape, np.uint8))
    for target in ("b.ca", "b.npz", "b.npy"):
        assert f"{shape} uint8" in text("convert", tmp_path / "a.npy", tmp_path / target)
    assert f"shape   {shape} uint8" in text("inspect", tmp_path / "b.ca")
    assert f"{shape} uint8" in text("convert", tmp_path / "b.ca", tmp_path / "c.npy")
    assert np.load(tmp_path / "c.npy").shape == shape


def test_convert_takes_codec_and_items(saved: Path, tmp_path: Path, frames: np.ndarray) -> None:
    answer("convert", saved, tmp_path / "b.ca", "--codec", "gzip3", "--item-ndim", "1")
    array = ca.load(tmp_path / "b.ca")
    assert array.item_shape == (24,)
    assert array.codec == ca.get_codec("gzip3")
    assert np.array_equal(array.read(), frames)
    assert "(60, 24, 24) uint8 by gzip1" in text("convert", saved, saved, "--codec", "gzip1").replace("\n", " ")
    assert np.array_equal(ca.load(saved).read(), frames)


def test_convert_takes_one_of_several(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(6).reshape(2, 3), y=np.ones((2, 2)))
    assert "x, y" in complaint("convert", tmp_path / "a.npz", tmp_path / "b.ca", code=2)
    assert not (tmp_path / "b.ca").exists()
    answer("convert", tmp_path / "a.npz", tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as file:
        assert {name: file[name].tolist() for name in file.files} == {"x": [[0, 1, 2], [3, 4, 5]], "y": [[1, 1]] * 2}
    answer("convert", tmp_path / "a.npz", tmp_path / "b.npz", "--key", "y")
    with np.load(tmp_path / "b.npz") as file:
        assert file.files == ["y"]


@pytest.mark.parametrize("name", ["file", "allow_pickle", "x"])
def test_an_array_of_any_name(name: str, tmp_path: Path) -> None:
    """`np.savez` takes some names for arguments of its own."""
    np.save(tmp_path / "a.npy", np.arange(6))
    answer("convert", tmp_path / "a.npy", tmp_path / "b.npz", "--key", name)
    with np.load(tmp_path / "b.npz") as file:
        assert file.files == [name]
        assert (file[name] == np.arange(6)).all()


def test_a_video_is_converted_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imageio = pytest.importorskip("imageio.v3")
    from compressed_array._cli import sources

    shown = np.random.default_rng(0).integers(0, 2, (9, 32, 32), np.uint8) * 255
    imageio.imwrite(tmp_path / "a.gif", shown, loop=0)
    answer("convert", tmp_path / "a.gif", tmp_path / "a.ca")
    assert len(ca.load(tmp_path / "a.ca")) == len(imageio.imread(tmp_path / "a.gif"))
    monkeypatch.setattr(sources, "MOST_BYTES", 2 * 32 * 32)
    assert "cut the video" in complaint("convert", tmp_path / "a.gif", tmp_path / "b.ca", code=1)
    assert not (tmp_path / "b.ca").exists()


def test_a_failed_convert_replaces_nothing(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "b.npy"
    target.write_bytes(b"as it was")
    from compressed_array._cli import convert

    monkeypatch.setattr(convert, "_write_npy", lambda file, array: np.save(file, array.read() + 1))
    assert "nothing was replaced" in complaint("convert", saved, target, code=1)
    assert target.read_bytes() == b"as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.npy", "frames.ca"]
