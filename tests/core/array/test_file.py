"""`save` and `load`: every kind of array comes back, and a damaged file is an error and nothing else."""

from __future__ import annotations

import io
import json
import os
import pickle
import runpy
import stat
import subprocess
import sys
import time
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array import CorruptFileError
from compressed_array._array import file as _file
from compressed_array._runtime.headers import PREFIX
from core_helpers.arrays import DTYPES, assert_same, random_bits

pytestmark = pytest.mark.long

PLAIN = (np.arange(60 * 3 * 200).reshape(60, 3, 200) // 37 % 5).astype(np.uint8)


def test_an_array_comes_back(codec: str, tmp_path: Path) -> None:
    array = ca.compress(PLAIN, item_ndim=1, codec=codec)
    array[3:5] = 0
    ca.save(tmp_path / "a.ca", array)
    back = ca.load(tmp_path / "a.ca")
    assert type(back) is ca.CompressedArray
    assert_same(back, array.read())
    assert back.codec == array.codec
    assert back.item_shape == (200,)
    back[0] = 4
    assert (back[0] == 4).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(4, 3, 5), (0, 3), (3, 0), ()])
def test_every_dtype_and_shape_comes_back(
    dtype: np.dtype[Any], shape: tuple[int, ...], tmp_path: Path, rng: np.random.Generator
) -> None:
    plain = random_bits(shape, dtype, rng)
    for item_ndim in range(len(shape) + 1):
        ca.save(tmp_path / "a.ca", ca.compress(plain, item_ndim=item_ndim))
        back = ca.load(tmp_path / "a.ca")
        assert_same(back, plain)
        assert back.dtype == dtype


def test_files_of_every_format_so_far_are_loaded() -> None:
    folder = Path(__file__).parents[1] / "golden"
    made = runpy.run_path(str(folder / "make.py"))
    expected = dict.fromkeys(("delta", "gzip", "none", "rle"), made["expected"]())
    expected["narrowed"], expected["foretold"] = made["expected_rows"](), made["expected_camera"]()
    files = {file.stem.removeprefix("format-1-"): file for file in folder.glob("*.ca")}
    assert files.keys() == expected.keys()
    for name, file in files.items():
        if name != "foretold" or ca.has_zstd():
            assert_same(ca.load(file), expected[name])


def test_a_view_saves_its_own_cells_only(codec: str, tmp_path: Path) -> None:
    array = ca.compress(np.random.default_rng(0).integers(0, 256, (100, 1000)).astype(np.uint8), codec=codec)
    ca.save(tmp_path / "a.ca", array[10:12])
    frames = {"delta": 8 + 8, "delta-zstd": 32}.get(codec, 2)  # whole groups, of which these are two at the most
    assert (tmp_path / "a.ca").stat().st_size < 1000 * frames + 2000
    assert_same(ca.load(tmp_path / "a.ca"), array[10:12].read())


def test_a_million_unwritten_cells(tmp_path: Path) -> None:
    array = ca.zeros((1000, 1000, 84, 84), np.uint8, item_ndim=2)
    array[7, 7] = 3
    ca.save(tmp_path / "a.ca", array)
    back = ca.load(tmp_path / "a.ca")
    assert back.shape == array.shape
    assert (back[7, 7] == 3).all()
    assert not back[8, 8].any()


def test_saving_replaces_the_old_file_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.ca"
    ca.save(path, ca.compress(PLAIN))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            ca.save(path, ca.compress(PLAIN + 1))
    assert_same(ca.load(path), PLAIN)
    assert [path.name for path in tmp_path.iterdir()] == ["a.ca"]
    ca.save(str(path), ca.compress(PLAIN + 1))
    assert_same(ca.load(str(path)), PLAIN + 1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.ca"]


def test_what_is_not_ours_is_said_to_be_not_ours(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", PLAIN)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("not an array at all, but long enough for a header")
    for name in ("a.npy", "empty", "text"):
        with pytest.raises(ca.CorruptFileError, match="not a saved compressed array"):
            ca.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        ca.load(tmp_path / "missing")


@pytest.mark.skipif(os.name != "posix", reason="modes of files are a thing of posix")
def test_a_file_has_the_mode_that_others_have(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    ca.save(tmp_path / "a.ca", ca.compress(PLAIN))
    assert (tmp_path / "a.ca").stat().st_mode == (tmp_path / "other").stat().st_mode
    (tmp_path / "a.ca").chmod(0o640)
    ca.save(tmp_path / "a.ca", ca.compress(PLAIN))
    assert (tmp_path / "a.ca").stat().st_mode & 0o777 == 0o640


def test_a_dtype_that_cannot_be_written_down_is_refused_by_name(tmp_path: Path) -> None:
    overlapping = np.dtype({"names": ["a", "b"], "formats": ["u4", "u2"], "offsets": [0, 0]})
    with pytest.raises(ca.UnsupportedDtypeError, match="file"):
        ca.save(tmp_path / "a.ca", ca.zeros((2, 2), overlapping))
    assert not list(tmp_path.iterdir())


def test_a_dtype_of_another_library_is_refused_and_not_changed(tmp_path: Path) -> None:
    """numpy writes bfloat16 down as two bytes of whatever, which is what would be loaded."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(ca.UnsupportedDtypeError, match=r"bfloat16.*numpy's own"):
        ca.save(tmp_path / "a.ca", ca.zeros((2, 2), ml_dtypes.bfloat16))
    assert not list(tmp_path.iterdir())


def saved(codec: str, tmp_path: Path) -> tuple[Path, bytes]:
    array = ca.compress(PLAIN, item_ndim=1, codec=codec)
    array[1] = np.random.default_rng(1).integers(0, 256, (3, 200))
    array[5] = 0
    ca.save(tmp_path / "a.ca", array)
    return tmp_path / "a.ca", (tmp_path / "a.ca").read_bytes()


def load_damaged(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(ca.CorruptFileError):
        ca.load(path)


def test_every_truncation_is_noticed(codec: str, tmp_path: Path) -> None:
    path, data = saved(codec, tmp_path)
    for length in [*range(min(len(data), 400)), *range(400, len(data), max(len(data) // 200, 1))]:
        load_damaged(path, data[:length])
    load_damaged(path, data + b"\0")


@pytest.mark.parametrize("some", [1500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_every_changed_bit_is_noticed(codec: str, some: int, tmp_path: Path, rng: np.random.Generator) -> None:
    path, data = saved(codec, tmp_path)
    tracemalloc.start()
    for at in [*range(64), *rng.integers(0, len(data), some).tolist()]:
        changed = bytearray(data)
        changed[at] ^= 1 << int(rng.integers(0, 8))
        load_damaged(path, bytes(changed))
    assert tracemalloc.get_traced_memory()[1] < 20 * len(data) + 2_000_000
    tracemalloc.stop()


def test_random_edits_are_noticed(codec: str, tmp_path: Path, rng: np.random.Generator) -> None:
    path, data = saved(codec, tmp_path)
    for _ in range(300):
        low = int(rng.integers(0, len(data)))
        high = low + int(rng.integers(1, 40))
        edited = data[:low] + rng.bytes(int(rng.integers(0, 60))) + data[high:]
        if edited != data:
            load_damaged(path, edited)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [61, 3]},
        {"shape": [-60, -3]},
        {"shape": ["60", 3]},
        {"shape": 5},
        {"item_shape": [201]},
        {"item_shape": [2**62, 2**62]},
        {"dtype": "|O"},
        {"dtype": "nonsense"},
        {"dtype": [["a", "|u1"], ["b"]]},
        {"codecs": []},
        {"codecs": [{}]},
        {"sections": {}},
        {"format": 2},
        {"codecs": "zstd"},
        {"codecs": [{"library": "numcodecs", "config": {"id": "pickle"}}]},
        {"codecs": [{"library": "compressed-array", "config": {"id": "pickle"}}]},
        {"auto": {}},
        {"auto": {"current": 9, "seen": 0, "looks": []}},
    ],
    ids=repr,
)
def test_a_header_that_lies_with_a_right_checksum_is_noticed(change: dict[str, Any], tmp_path: Path) -> None:
    path, data = saved("none", tmp_path)
    _, length, _ = PREFIX.unpack(data[: PREFIX.size])
    header = json.loads(data[PREFIX.size :][:length]) | change
    load_damaged(path, with_header(json.dumps(header).encode(), data))


def with_header(text: bytes, data: bytes) -> bytes:
    _, length, _ = PREFIX.unpack(data[: PREFIX.size])
    prefix = PREFIX.pack(_file.MAGIC, len(text), zlib.crc32(text))
    return prefix + text + data[PREFIX.size + length :]


@pytest.mark.parametrize("text", [b"[]", b"5", b"{", b"", b"\xff\xfe", b"[" * 100_000, b'"format"', b"{}"])
def test_a_header_that_is_no_header_is_noticed(text: bytes, tmp_path: Path) -> None:
    path, data = saved("none", tmp_path)
    load_damaged(path, with_header(text, data))


def test_the_trained_dictionary_is_saved_with_the_array(tmp_path: Path, rng: np.random.Generator) -> None:
    pytest.importorskip("zstandard")
    from compressed_array.codecs.zstd import Zstd

    background = rng.integers(0, 256, 4000).astype(np.uint8)
    frames = np.stack([np.roll(background, 0) for _ in range(64)])
    frames[:, ::97] = rng.integers(0, 256, (64, 42))
    plain, trained = ca.compress(frames, codec="zstd3"), ca.compress(frames, codec=Zstd.train(frames, level=3))
    assert trained.nbytes_stored < plain.nbytes_stored
    ca.save(tmp_path / "a.ca", trained)
    back = ca.load(tmp_path / "a.ca")
    assert back.codec == trained.codec
    assert_same(back, frames)


def test_a_numcodecs_codec_takes_records_and_dates() -> None:
    numcodecs = pytest.importorskip("numcodecs")
    for dtype in ([("x", "i2"), ("t", "M8[D]")], "M8[s]", "U4", "?"):
        plain = np.ones((4, 50), dtype)
        assert_same(ca.compress(plain, codec=numcodecs.LZ4()), plain)


def test_a_numcodecs_codec_is_saved_as_such(tmp_path: Path) -> None:
    numcodecs = pytest.importorskip("numcodecs")
    for codec in (numcodecs.Zstd(level=2), numcodecs.Delta("<i4"), numcodecs.Blosc(), numcodecs.GZip(3)):
        plain = PLAIN.astype("<i4")
        array = ca.compress(plain, item_ndim=1, codec=codec)
        assert_same(array, plain)
        ca.save(tmp_path / "a.ca", array)
        back = ca.load(tmp_path / "a.ca")
        assert_same(back, plain)
        assert back.codec == codec


def test_a_link_is_followed(tmp_path: Path) -> None:
    """What it leads to is replaced, also if that is not there yet; the link stays."""
    real, link = tmp_path / "elsewhere" / "real.ca", tmp_path / "link.ca"
    real.parent.mkdir()
    link.symlink_to(real)
    for plain in (PLAIN, PLAIN + 1):
        ca.save(link, ca.compress(plain))
        assert link.is_symlink()
        assert_same(ca.load(real), plain)
    assert [*real.parent.iterdir()] == [real]


@pytest.mark.skipif(os.name != "posix", reason="there are no such files")
def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with suppress(PermissionError):  # a node of its own: root, who may make one, may also replace the machine's
        os.mknod(tmp_path / "node", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    before = {path.name: path.lstat().st_mode for path in tmp_path.iterdir()}
    for name in before:
        with pytest.raises(FileExistsError, match="no file"):
            ca.save(tmp_path / name, ca.compress(PLAIN))
    assert {path.name: path.lstat().st_mode for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["n" * 250, "ü" * 125, "n" * 255])
def test_names_may_be_as_long_as_names_are(name: str, tmp_path: Path) -> None:
    ca.save(tmp_path / name, ca.compress(PLAIN))
    assert_same(ca.load(tmp_path / name), PLAIN)
    assert [path.name for path in tmp_path.iterdir()] == [name]


SAVER = """
import os, signal, sys, numpy as np, compressed_array as ca
array = ca.compress(np.random.default_rng(0).integers(0, 256, (20, 100_000)).astype(np.uint8), codec="none")
if sys.argv[2] == "dies":
    os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "waits":
    os.fsync = lambda handle: print("waits", flush=True) or sys.stdin.readline()
print("begins", flush=True)
while True:
    ca.save(sys.argv[1], array)
    if sys.argv[2] != "goes on":
        break
"""


def saver(path: Path, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SAVER, str(path), how]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "begins\n"
    return child


@pytest.mark.skipif(os.name != "posix", reason="leftovers are told by locks, and processes killed, as posix has it")
def test_what_killed_processes_leave_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.ca"
    ca.save(path, ca.compress(PLAIN))
    with saver(path, "dies") as child:
        child.wait()
    assert len([*tmp_path.iterdir()]) == 2
    assert_same(ca.load(path), PLAIN)
    ca.save(path, ca.compress(PLAIN + 1))
    assert [*tmp_path.iterdir()] == [path]
    with saver(path, "goes on") as child:
        time.sleep(0.2)
        child.kill()
    ca.load(path)
    ca.save(path, ca.compress(PLAIN))
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.skipif(os.name != "posix", reason="leftovers are told by locks, as posix has it")
def test_what_another_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.ca"
    with saver(path, "waits") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "waits\n"
        ca.save(path, ca.compress(PLAIN))
        assert len([*tmp_path.iterdir()]) == 2
        assert_same(ca.load(path), PLAIN)
        child.communicate("\n")
    assert child.returncode == 0
    assert [*tmp_path.iterdir()] == [path]
    assert ca.load(path).shape == (20, 100_000)


@pytest.mark.skipif(not ca.has_zstd(), reason="nothing is packed without zstd")
def test_auto_goes_on_with_what_it_had_chosen(tmp_path: Path) -> None:
    """A restored array says what its frames are compressed by, and writes the next ones in the same way."""
    frames = np.zeros((600, 84, 84), np.uint8)
    for i in range(600):
        frames[i] = np.roll(frames[i - 1], 1, axis=0)
        frames[i, i % 84] = i % 256
    array = ca.compress(frames, codec="auto")
    assert ca.shorthand(array.codec) == "delta-zstd"
    ca.save(tmp_path / "a.ca", array)
    for back in (ca.load(tmp_path / "a.ca"), pickle.loads(pickle.dumps(array))):
        assert back.codec == array.codec
        back[:300] = frames[300:]
        assert_same(back, np.concatenate([frames[300:], frames[300:]]))
    unpacked = ca.compress(np.random.default_rng(0).integers(0, 256, (50, 9000), np.uint8), codec="auto")
    assert ca.shorthand(pickle.loads(pickle.dumps(unpacked)).codec) != "delta-zstd"


@pytest.mark.parametrize("codec", ["delta", "gzip"])
def test_an_open_file_will_do(codec: str, tmp_path: Path) -> None:
    array = ca.compress(np.arange(6000, dtype=np.uint16).reshape(60, 10, 10), codec=codec)
    file = io.BytesIO(b"something before")
    file.seek(0, io.SEEK_END)
    ca.save(file, array)
    file.seek(len(b"something before"))
    np.testing.assert_array_equal(ca.load(file).read(), array.read())
    with (tmp_path / "array").open("w+b") as opened:
        ca.save(opened, array)
        opened.seek(0)
        np.testing.assert_array_equal(ca.load(opened).read(), array.read())
    np.testing.assert_array_equal(ca.load(tmp_path / "array").read(), array.read())
    with pytest.raises(CorruptFileError, match="the file: cut short"):
        ca.load(io.BytesIO(file.getvalue()[len(b"something before") : -1]))
