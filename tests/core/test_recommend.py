"""Recommendations are measured on the records, and come out the same where there is no doubt."""

from __future__ import annotations

import numpy as np
import pytest

from compressed_array import CompressedArray, UnsupportedDtypeError, _recommend, compress, get_codec, recommend
from compressed_array._recommend import Measurement, Recommendation, choose
from compressed_array.codecs.none import Raw


def frames(n: int = 40) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.repeat(np.repeat(rng.integers(0, 6, (n, 12, 12), np.uint8), 7, axis=1), 7, axis=2)


def noise(n: int = 20) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, 5000), np.uint8)


def test_frames_are_compressed() -> None:
    found = recommend(frames())
    assert found.best.codec_id != "none"
    assert choose(frames().reshape(40, -1), np.dtype(np.uint8)).codec_id != "none"


def test_noise_is_left_alone() -> None:
    assert recommend(noise()).best == Raw()
    assert choose(noise(), np.dtype(np.uint8)) == Raw()


def test_tiny_and_no_records_are_left_alone() -> None:
    assert choose(np.zeros((50, 16), np.uint8), np.dtype(np.float32)) == Raw()
    assert choose(np.empty((0, 5000), np.uint8), np.dtype(np.uint8)) == Raw()


def test_table() -> None:
    """A line per candidate, none wider than a terminal, and the best one marked."""
    text = str(recommend(frames(), ["none", "gzip1", "rle"]))
    assert [line.split()[0] for line in text.splitlines()] == ["codec", "none", "gzip1", "rle", "*"]
    assert max(map(len, text.splitlines())) <= 80
    assert sum(line.endswith("*") for line in text.splitlines()) == 1


def test_lists_and_objects() -> None:
    assert len(recommend(list(frames(4)), [Raw()]).measurements) == 1
    assert recommend([bytes(100), bytes(100)], ["rle"]).measurements[0].ratio > 5
    with pytest.raises(UnsupportedDtypeError):
        recommend(np.array([None]))
    for nothing in ([], np.empty((0, 3)), np.float32(3)):
        with pytest.raises((ValueError, TypeError)):
            recommend(nothing)
    with pytest.raises(ValueError, match="at least one candidate"):
        recommend(frames(), [])


def test_every_dtype() -> None:
    for code in ("f4", ">f8", "M8[s]", "i2,f4", "?"):
        assert recommend(np.zeros((5, 20_000), code), ["none", "rle"]).best == get_codec("rle")


def test_foreign_codec() -> None:
    """A numcodecs codec can be a candidate."""
    numcodecs = pytest.importorskip("numcodecs")
    assert recommend(frames(), [numcodecs.Zstd(level=1)]).best == numcodecs.Zstd(level=1)


def test_close_race_goes_to_the_first() -> None:
    """So that the noise of a clock does not decide between equals."""
    rows = [Measurement(name, name, 1000, stored, 1e-5, 1e-5) for name, stored in (("a", 102.0), ("b", 100.0))]
    assert Recommendation(tuple(rows)).best == "a"
    assert Recommendation(tuple(reversed(rows))).best == "b"


def test_score_weighs_time() -> None:
    """Half the bytes are worth four times the read, and not more."""
    one = Measurement("a", "a", 1000, 100.0, 0, 0)
    plain_read = 1.25e-6
    assert Measurement("b", "b", 1000, 50.0, 0, 2 * plain_read).score < one.score
    assert Measurement("b", "b", 1000, 50.0, 0, 4 * plain_read).score > one.score


def test_compressed_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compressed array is measured by its items, a bounded number of them, and not by its table."""
    monkeypatch.setattr(_recommend, "SAMPLE_BYTES", 20 * 5000)
    read = []
    original = CompressedArray.__getitem__

    def getitem(self: CompressedArray, key: object) -> object:
        result = original(self, key)
        if type(result) is np.ndarray:
            read.append(result.nbytes)
        return result

    for plain in (frames(400).reshape(400, -1)[:, :5000], noise(400)):
        array = compress(plain, item_ndim=1, codec="gzip")
        with monkeypatch.context() as patch:
            patch.setattr(CompressedArray, "__getitem__", getitem)
            ours = recommend(array, ["none", "gzip"]).measurements
        theirs = recommend(plain, ["none", "gzip"]).measurements
        assert [(m.nbytes, m.stored_bytes) for m in ours] == [(m.nbytes, m.stored_bytes) for m in theirs]
    assert sum(read) <= 2 * 20 * 5000 + 2 * 5000


def test_ratio_means_what_it_means_for_an_array() -> None:
    """How many times smaller."""
    (measured,) = recommend(frames(), ["gzip"]).measurements
    assert measured.ratio == measured.nbytes / measured.stored_bytes > 4
    assert f"{measured.ratio:.1f}x" in str(recommend(frames(), ["gzip"]))
