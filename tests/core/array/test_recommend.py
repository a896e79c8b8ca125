"""Recommendations are measured on the records, and come out the same where there is no doubt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compressed_array import (
    CompressedArray,
    UnsupportedDtypeError,
    compress,
    get_codec,
    has_zstd,
    recommend,
    zeros,
)
from compressed_array._array import recommend as recommend_module
from compressed_array._array.recommend import Measurement, Recommendation
from compressed_array.codecs._measure import choose
from compressed_array.codecs.none import Raw
from core_helpers.streams import Stacked


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
    """A compressed array is measured as the plain one is, and no more of it is decoded than is measured."""
    monkeypatch.setattr(recommend_module, "STREAM_BYTES", 150 * 5000)
    read = []
    original = CompressedArray.read

    def counted(self: CompressedArray, key: Any) -> Any:
        result = original(self, key)
        read.append(result.nbytes)
        return result

    for plain in (frames(400).reshape(400, -1)[:, :5000], noise(400)):
        array = compress(plain, item_ndim=1, codec="gzip")
        with monkeypatch.context() as patch:
            patch.setattr(CompressedArray, "read", counted)
            ours = recommend(array, ["none", "gzip"]).measurements
        theirs = recommend(plain, ["none", "gzip"]).measurements
        assert [(m.nbytes, m.stored_bytes) for m in ours] == [(m.nbytes, m.stored_bytes) for m in theirs]
    assert 0 < sum(read) <= 2 * 150 * 5000


@pytest.mark.parametrize("shape", [(60, 12), (20, 3, 12), (5, 4, 3, 12), (1, 20, 3, 12)])
def test_compressed_samples_of_any_grid(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Their items are those of the array, unless others are asked for."""
    plain = np.arange(60 * 12, dtype=np.float64).reshape(shape)
    array = compress(plain, item_ndim=1)
    for item_ndim in (None, 0, 1):
        (ours,) = recommend(array, ["delta"], item_ndim=item_ndim).measurements
        (theirs,) = recommend(plain, ["delta"], item_ndim=1 if item_ndim is None else item_ndim).measurements
        assert (ours.nbytes, ours.stored_bytes) == (theirs.nbytes, theirs.stored_bytes)


def test_a_huge_array_that_is_hardly_written() -> None:
    """Nothing is made of the size of the whole."""
    array = CompressedArray((10**9, 84, 84), np.uint8, item_ndim=2)
    assert recommend(array, ["none", "gzip1"]).best == get_codec("gzip1")


def test_ratio_is_that_of_an_array() -> None:
    """How many times smaller an array of these items is, with all that it needs."""
    for codec in ("gzip", "rle", "delta"):
        (measured,) = recommend(frames(), [codec]).measurements
        array = zeros((40, 84, 84), np.uint8, codec=codec)
        for number, frame in enumerate(frames()):
            array[number] = frame
        assert measured.ratio == pytest.approx(array.ratio, rel=0.05)
        assert f"{measured.ratio:.1f}x" in str(recommend(frames(), [codec]))


def test_where_an_array_takes_more_than_plain_memory_none_is_advised() -> None:
    """Rows of a few numbers that change at every step."""
    rows = np.random.default_rng(0).random((500, 4)).astype(np.float32)
    found = recommend(rows)
    assert found.best == Raw()
    assert all(m.ratio < 1 for m in found.measurements if m.codec != Raw())
    assert next(m for m in found.measurements if m.codec == Raw()).ratio == 1


@pytest.mark.parametrize("item_ndim", [0, 1, 2])
def test_zeros_are_measured(item_ndim: int) -> None:
    """None of them is stored."""
    for items in (np.zeros((20, 12, 12), np.uint8), np.zeros((10, 4, 12, 12), np.uint8), np.zeros((20, 3, 1))):
        found = recommend(items, ["none", "auto", "delta", "gzip"], item_ndim=item_ndim)
        assert all(m.ratio > 0 for m in found.measurements)


def test_streams_are_sampled_all_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stream is like at its beginning does not say what it is like."""
    rng = np.random.default_rng(0)
    noisy = rng.integers(0, 256, (4000, 1, 500), np.uint8)
    noisy[:1000] = 7
    with monkeypatch.context() as patch:
        patch.setattr(recommend_module, "STREAM_BYTES", 1024 * 500)
        (part,) = recommend(noisy, ["delta"], item_ndim=1).measurements
    (whole,) = recommend(noisy, ["delta"], item_ndim=1).measurements
    assert part.stored_bytes == pytest.approx(whole.stored_bytes, rel=0.1)


@pytest.mark.parametrize(
    ("steps", "streams", "nbytes"), [(10, 1, 5), (10**6, 4, 28224), (10**7, 1, 1), (50, 256, 10**7)]
)
def test_blocks_are_in_order_and_within_bounds(steps: int, streams: int, nbytes: int) -> None:
    blocks = recommend_module._blocks(steps, streams, nbytes)
    ends = [0, *(end for block in blocks for end in block), steps]
    assert ends == sorted(ends)
    count = sum(high - low for low, high in blocks)
    assert count <= steps
    assert count == steps or count * streams <= recommend_module.STREAM_ITEMS
    assert count == steps or count * streams * nbytes <= max(recommend_module.STREAM_BYTES, 256 * nbytes)


def stacks(lanes: int, steps: int = 300) -> np.ndarray[Any, Any]:
    """Stacks of four frames in which little changes, one environment beside the other."""
    return np.stack([step.obs for step in Stacked(lanes, 4, (1, 32, 32), episode=70).steps(steps)])


@pytest.mark.parametrize("lanes", [1, 3])
def test_streams_are_measured_as_streams(lanes: int) -> None:
    """Items in their order, each environment by itself: what only then becomes small is found to be small."""
    found = {m.name: m for m in recommend(stacks(lanes), item_ndim=3).measurements}
    assert {"auto", "delta", "none"} <= set(found)
    assert ("delta-zstd" in found) == has_zstd()
    assert found["delta"].stored_bytes < 0.5 * min(
        found[name].stored_bytes for name in found if name[:2] in ("zs", "gz")
    )
    mixed = recommend(stacks(lanes).reshape(-1, 4, 32, 32), ["delta"]).measurements[0]
    assert lanes == 1 or found["delta"].stored_bytes < 0.8 * mixed.stored_bytes


@pytest.mark.parametrize("sample", [stacks(2), frames(200), noise(100)], ids=["stacks", "frames", "noise"])
def test_advice_takes_no_more_than_auto(sample: np.ndarray[Any, Any]) -> None:
    found = recommend(sample, item_ndim=3 if sample.ndim == 5 else sample.ndim - 1)
    stored = {str(m.codec): m.stored_bytes for m in found.measurements}
    assert stored[str(found.best)] <= 1.06 * stored["auto"]


def test_no_score_makes_up_for_more_bytes_than_auto_takes() -> None:
    fast = Measurement("fast", "fast", 1000, 200.0, 0, 0)
    auto = Measurement("auto", "auto", 1000, 100.0, 1e-3, 1e-3)
    assert fast.score < auto.score
    assert Recommendation((fast, auto)).best == "auto"


def test_columns_do_not_collide() -> None:
    rows = [
        Measurement("a-codec-with-a-name-that-is-long", "a", 10**6, 0.001, 123.4, 0.123456),
        Measurement("b", "b", 10**6, 10.0**6, 1e-9, 1e-9),
    ]
    head, *lines, _ = str(Recommendation(tuple(rows))).splitlines()
    assert len(head.split("  ")) >= 6
    for line in lines:
        words = line.split()
        assert len(words) - (words[-1] == "*") == 6, line


def test_lists_have_item_axes_too() -> None:
    items = list(stacks(1)[:, 0])
    assert recommend(items, ["delta"], item_ndim=3).measurements[0].ratio > 4
    with pytest.raises(ValueError, match="no items of 4"):
        recommend(items, ["delta"], item_ndim=4)
