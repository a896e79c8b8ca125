"""Whatever is wrong is said in one line, with an exit code that says whose fault it is; and how the program behaves."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")

import compressed_array as ca
from core_helpers.command_line import complaint, invoke, run_program, text

pytestmark = pytest.mark.long

COMMANDS = ("codecs", "recommend", "inspect", "verify", "convert", "bench")
TAKE_FILES = ("recommend", "inspect", "verify", "bench")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    np.save(tmp_path / "a.npy", np.arange(600, dtype=np.uint8).reshape(100, 6))
    return tmp_path / "a.npy"


@pytest.mark.parametrize("command", TAKE_FILES)
def test_bad_files(tmp_path: Path, command: str) -> None:
    assert "no such file" in complaint(command, tmp_path / "none.npy", code=2)
    assert "a folder" in complaint(command, tmp_path, code=2)
    for name, data, words in (
        ("empty.npy", b"", "empty"),
        ("text.npy", b"some text, and more of it", "not an array of numpy"),
        ("text.ca", b"some text, and more of it", "not a saved compressed array"),
        ("text.txt", b"some text, and more of it", "unknown format"),
        ("cut.npz", b"PK\x03\x04 and no more than that", "cut short"),
    ):
        (tmp_path / name).write_bytes(data)
        line = complaint(command, tmp_path / name, code=1)
        assert words in line
        assert name in line


@pytest.mark.parametrize("command", TAKE_FILES)
def test_objects_are_refused(tmp_path: Path, command: str) -> None:
    np.save(tmp_path / "o.npy", np.array([1, "a", None], object), allow_pickle=True)
    assert "dtype object" in complaint(command, tmp_path / "o.npy", code=1)


@pytest.mark.parametrize("command", TAKE_FILES)
def test_cut_files(tmp_path: Path, command: str) -> None:
    whole = tmp_path / "a.ca"
    ca.save(whole, ca.compress(np.arange(6000, dtype=np.uint8).reshape(100, 60), codec="gzip"))
    whole.write_bytes(whole.read_bytes()[:-7])
    assert "cut short" in complaint(command, whole, code=1)


@pytest.mark.parametrize("command", ["recommend", "bench"])
def test_wrong_wishes(file: Path, command: str) -> None:
    assert "did you mean 'zstd'" in complaint(command, file, "--codec", "zstdd", code=2)
    assert "takes a level" in complaint(command, file, "--codec", "gzip99", code=2)
    assert "--item-ndim is from 0 to 1" in complaint(command, file, "--item-ndim", "5", code=2)
    assert "either a file or --env" in complaint(command, code=2)
    assert "either a file or --env" in complaint(command, file, "--env", "CartPole-v1", code=2)
    assert "is for files" in complaint(command, "--env", "CartPole-v1", "--item-ndim", "0", code=2)


@pytest.mark.parametrize("command", TAKE_FILES)
def test_archives_that_numpy_cannot_read(tmp_path: Path, command: str) -> None:
    np.savez_compressed(tmp_path / "whole.npz", a=np.arange(60_000, dtype=np.uint16))
    raw = bytearray((tmp_path / "whole.npz").read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    (tmp_path / "bit.npz").write_bytes(raw)
    for name, entry in (("text.npz", b"x"), ("nothing.npz", b"")):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("a.npy", entry)
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(huge, {"descr": "|u1", "fortran_order": False, "shape": (10**26,)})
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.writestr("a.npy", huge.getvalue())
    for name in ("bit.npz", "text.npz", "nothing.npz", "huge.npz"):
        assert name in complaint(command, tmp_path / name, code=1)


def test_empty_texts_are_measured(tmp_path: Path) -> None:
    np.save(tmp_path / "texts.npy", np.array([b""] * 10))
    result = invoke("recommend", tmp_path / "texts.npy")
    assert result.exit_code == 0
    assert result.stdout.startswith("10 items of () |S1, 10 B\n")


def test_a_program_without_an_output(file: Path) -> None:
    command = f"{sys.executable} -m compressed_array codecs >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_wrong_conversions(file: Path, tmp_path: Path) -> None:
    assert "leave --key k out" in complaint("convert", file, tmp_path / "b.ca", "--key", "k", code=2)
    assert ".npy, .npz, .ca" in complaint("convert", file, tmp_path / "b.txt", code=2)
    assert "no such folder" in complaint("convert", file, tmp_path / "none" / "b.ca", code=2)
    assert "unknown codec" in complaint("convert", file, tmp_path / "b.ca", "--codec", "nope", code=2)


def test_arrays_without_items(tmp_path: Path) -> None:
    for number, array in enumerate((np.zeros((0, 5)), np.array(3))):
        np.save(tmp_path / f"{number}.npy", array)
        assert "no items to measure" in complaint("recommend", tmp_path / f"{number}.npy", code=1)


def test_the_program(file: Path) -> None:
    """As a process: exit codes, one line for each error, no colours, and help that fits a terminal."""
    assert run_program("verify", file).returncode == 0
    for arguments, code in (
        (["nope"], 2),
        (["bnch"], 2),
        (["inspect", "--nope", file], 2),
        (["verify"], 2),
        (["recommend", file, "--steps", "x"], 2),
        (["verify", file.with_name("none.npy")], 2),
        (["verify", __file__], 1),
    ):
        run = run_program(*arguments)
        assert run.returncode == code
        assert len(run.stderr.splitlines()) == 1, run.stderr
        assert run.stderr.startswith("compressed-array: ")
        assert run.stdout == ""
    alone = run_program()
    assert alone.returncode == 2
    assert alone.stdout == run_program("--help").stdout
    assert run_program("--version").stdout.split() == ["compressed-array", ca.__version__]
    assert "\x1b" not in alone.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_and_names_json(command: str) -> None:
    assert "--json" in text(command, "--help")


COMPILES_FOR_EVER = """
import threading, time
from compressed_array._runtime.loading import lock
threading.Thread(target=lambda: (lock.acquire(), time.sleep(1e6)), daemon=True).start()
while lock.acquire(blocking=False): lock.release()
"""


@pytest.mark.parametrize("before", ["", COMPILES_FOR_EVER], ids=["measuring", "compiling"])
def test_an_interrupt_is_quiet_and_waits_for_nothing(tmp_path: Path, before: str) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).integers(0, 9, (20_000, 500), np.uint8))
    arguments = ["compressed-array", "bench", str(tmp_path / "a.npy"), "--rounds", "100000000"]
    # What was started in the background has interrupts ignored; and before `main` has begun, nobody could be quiet.
    code = f"""{before}
import signal, sys
from compressed_array.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = {arguments}
print("begins", flush=True)
main()
"""
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", code], **pipes, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "begins\n"
        time.sleep(4)
        run.send_signal(signal.SIGINT)
        try:
            out, error = run.communicate(timeout=60)
        finally:
            run.kill()
    assert (run.returncode, out, error) == (130, "", "")


def test_somebody_who_reads_the_beginning_only(file: Path) -> None:
    program = f"{sys.executable} -m compressed_array recommend {file} --json | head -c 1"
    run = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout == "{"
    assert run.stderr == ""
