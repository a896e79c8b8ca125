"""`recommend` and `bench` on files: what they say is what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")

import compressed_array as ca
from compressed_array._cli import recommend as command
from core_helpers.command_line import answer, complaint, invoke, run_program, text

FRAMES = np.repeat(np.random.default_rng(0).integers(0, 4, (80, 12, 1), np.uint8), 12, axis=2)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    np.save(tmp_path / "frames.npy", FRAMES)
    return tmp_path / "frames.npy"


def test_it_says_what_the_library_says(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []

    def measured(*args: Any, **kwargs: Any) -> Any:
        found.append(recommend(*args, **kwargs))
        return found[-1]

    recommend = ca.recommend
    monkeypatch.setattr(command.ca, "recommend", measured)
    (part,) = answer("recommend", file)["parts"]
    last = found[-1]  # what comes before is not counted
    assert [m["codec"] for m in part["measurements"]] == [m.name for m in last.measurements]
    assert [m["ratio"] for m in part["measurements"]] == [m.ratio for m in last.measurements]
    assert part["best"] == (last.best if last.best == "auto" else ca.shorthand(last.best))
    monkeypatch.chdir(file.parent)
    shown = text("recommend", "frames.npy")
    assert str(found[-1]) in shown
    assert 'frames = np.load("frames.npy", mmap_mode="r")' in shown


def test_one_of_anything_is_no_plural(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.zeros((1, 50), np.uint8))
    one = ["--codec", "gzip"]
    assert text("recommend", "a.npy", *one).startswith("1 item of (50,) uint8, ")
    shown = text("bench", "a.npy", *one, "--rounds", 1, "--batch", 1)
    assert shown.startswith("1 item of (50,) uint8\n")
    assert "and of 1 read of 1 random item at once." in shown
    assert "1,000 reads of 2 random items at once." in text("bench", "a.npy", *one, "--rounds", 1000, "--batch", 2)
    np.save("b.npy", np.arange(4))
    assert "has 1 axis, so" in complaint("recommend", "b.npy", "--item-ndim", 3, code=2)


def test_the_code_runs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    names: dict[str, Any] = {}
    exec(answer("recommend", file, "--codec", "gzip9")["parts"][0]["code"], names)
    assert np.array_equal(names["a"][...].read(), FRAMES)
    assert names["a"].item_shape == (12, 12)


@pytest.mark.parametrize("name", ["frames.npy", "a folder/frames.npy", "of 'quotes'.npy", 'we"i\\rd.npy', "ca.np.npz"])
def test_the_code_runs_whatever_the_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(exist_ok=True)
    if name.endswith(".npz"):
        with Path(name).open("wb") as opened:
            np.savez(opened, **{"a\"b'": FRAMES})
    else:
        np.save(name, FRAMES)
    for codec in ("none", "gzip"):
        names: dict[str, Any] = {}
        exec(answer("recommend", name, "--codec", codec)["parts"][0]["code"], names)
        assert names["a"].shape == FRAMES.shape


def test_the_code_for_pictures_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    iio = pytest.importorskip("imageio.v3")
    pytest.importorskip("PIL")
    monkeypatch.chdir(tmp_path)
    iio.imwrite("a.gif", np.stack([FRAMES * 60] * 3, axis=-1)[:9], loop=0)
    names: dict[str, Any] = {}
    exec(answer("recommend", "a.gif", "--codec", "gzip")["parts"][0]["code"], names)
    assert names["a"].shape == (9, 12, 12, 3)


@pytest.mark.parametrize("command", ["recommend", "bench"])
def test_what_has_no_items_is_left_out(tmp_path: Path, command: str) -> None:
    np.savez(tmp_path / "a.npz", x=FRAMES, scalar=3, none=np.zeros((0, 4)))
    result = invoke(command, tmp_path / "a.npz", "--codec", "gzip", "--json")
    assert result.exit_code == 0
    assert [part["name"] for part in json.loads(result.stdout)["parts"]] == ["x"]
    left_out = result.stderr.splitlines()
    assert ["'scalar'" in left_out[0], "'none'" in left_out[1], len(left_out)] == [True, True, 2]
    np.savez(tmp_path / "a.npz", scalar=3)
    assert "no items to measure" in complaint(command, tmp_path / "a.npz", code=1)


def test_every_array_of_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "a.npz", x=FRAMES, y=np.random.default_rng(0).random((50, 100)))
    parts = answer("recommend", tmp_path / "a.npz")["parts"]
    assert [part["name"] for part in parts] == ["x", "y"]
    assert parts[1]["best"] == "none"
    shown = text("recommend", "a.npz")
    assert "x: 80 items of (12, 12) uint8" in shown
    assert "Keep a plain array" in shown


def test_saved_arrays_keep_their_items(tmp_path: Path) -> None:
    ca.save(tmp_path / "a.ca", ca.compress(FRAMES.reshape(40, 2, 12, 12), item_ndim=2, codec="gzip"))
    (part,) = answer("recommend", tmp_path / "a.ca", "--codec", "delta")["parts"]
    assert part["item_ndim"] == 2
    assert part["measurements"][0]["item_bytes"] == 144
    (part,) = answer("recommend", tmp_path / "a.ca", "--codec", "gzip", "--item-ndim", "1")["parts"]
    assert part["measurements"][0]["item_bytes"] == 12


def test_bench_has_medians_and_ratios(file: Path) -> None:
    said = answer("bench", file, "--codec", "gzip1", "--codec", "delta", "--rounds", "3", "--batch", "8")
    (part,) = said["parts"]
    plain, *others = part["contenders"]
    assert (part["items"], part["item_shape"]) == (80, [12, 12])
    assert (plain["codec"], plain["nbytes_stored"], plain["read_to_plain"]) == ("numpy", FRAMES.nbytes, 1)
    assert [c["codec"] for c in others] == ["gzip1", "delta"]
    for c in others:
        assert c["read_to_plain"] == pytest.approx(c["read_seconds"] / plain["read_seconds"])
        assert min(c["write_seconds"], c["mean_write_seconds"]) > 0
        assert c["ratio"] == pytest.approx(FRAMES.nbytes / c["nbytes_stored"])
    shown = text("bench", file, "--rounds", "2")
    assert "to numpy" in shown
    assert "…" not in shown


def test_recommend_and_bench_agree(file: Path) -> None:
    """On the bytes, which both have measured; what takes more than a plain array is not advised."""
    np.save(file, np.repeat(np.repeat(FRAMES, 8, axis=1), 8, axis=2))
    few = np.random.default_rng(0).random((3000, 4)).astype(np.float32)
    np.save(file.with_name("rows.npy"), few)
    for path, is_worth_it in ((file, True), (file.with_name("rows.npy"), False)):
        (part,) = answer("recommend", path, "--codec", "none", "--codec", "auto", "--codec", "gzip1")["parts"]
        (other,) = answer("bench", path, "--codec", "auto", "--codec", "gzip1", "--rounds", "1")["parts"]
        ratios = {m["codec"]: m["ratio"] for m in part["measurements"]}
        for contender in other["contenders"][1:]:
            assert ratios[contender["codec"]] == pytest.approx(contender["ratio"], rel=0.05)
        assert (part["best"] != "none") == is_worth_it


def test_pictures_that_move(tmp_path: Path) -> None:
    iio = pytest.importorskip("imageio.v3")
    pytest.importorskip("PIL")
    iio.imwrite(tmp_path / "a.gif", np.stack([FRAMES * 60] * 3, axis=-1)[:9], loop=0)
    (part,) = answer("recommend", tmp_path / "a.gif", "--codec", "gzip")["parts"]
    assert part["shape"] == [9, 12, 12, 3]
    (tmp_path / "b.gif").write_bytes(b"GIF89a and nothing else")
    assert "imageio cannot read it" in complaint("recommend", tmp_path / "b.gif", code=1)


def test_a_damaged_video_is_said_in_a_few_words(tmp_path: Path) -> None:
    """ffmpeg tells how it was built before it tells what is wrong."""
    iio = pytest.importorskip("imageio.v3")
    pytest.importorskip("imageio_ffmpeg")
    iio.imwrite(tmp_path / "a.mp4", np.zeros((9, 32, 32, 3), np.uint8), fps=10)
    (tmp_path / "a.mp4").write_bytes((tmp_path / "a.mp4").read_bytes()[:300])
    run = run_program("recommend", tmp_path / "a.mp4")  # in its own process: imageio leaves pipes to ffmpeg open
    assert run.returncode == 1
    assert "imageio cannot read it" in run.stderr
    assert len(run.stderr) < 300 + len(str(tmp_path))


@pytest.mark.parametrize(
    ("library", "arguments", "install"),
    [
        ("imageio", ["a.mp4"], "pip install 'compressed-array[video]'"),
        ("gymnasium", ["--env", "CartPole-v1"], "pip install gymnasium"),
    ],
)
def test_what_an_option_needs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, arguments: list[str], install: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, library, None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.mp4").write_bytes(b"whatever")
    assert install in complaint("recommend", *arguments, code=2)
