"""Arrays for the tests, and how a compressed one is compared with the plain one: by its bytes, not by its values."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import compressed_array as ca

# One of each kind numpy has but object, with the odd ones: big-endian, complex, datetime, strings, records, padding.
DTYPES = [
    np.dtype(text)
    for text in [
        "?",
        "u1",
        "i1",
        "<u2",
        ">i2",
        "<u4",
        "<i8",
        ">f2",
        "<f4",
        "<f8",
        ">f8",
        "<c8",
        "<c16",
        "<M8[us]",
        "<m8[s]",
        "<U3",
        ">U2",
        "S5",
        "V7",
    ]
    if text
] + [
    np.dtype([("position", "<f4", (2,)), ("kind", "u1"), ("when", "<M8[s]")]),
    np.dtype({"names": ["a", "b"], "formats": ["u1", "<f8"], "offsets": [0, 8], "itemsize": 24}),
]


def random_bits(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Any bytes at all: NaNs of every payload, negative zeros, garbage in the padding, strings that are no text."""
    if dtype.kind == "?" or dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "U":
        return rng.integers(0, 0xD7FF, (*shape, dtype.itemsize // 4)).astype(f"{dtype.byteorder}u4").view(dtype)[..., 0]
    count = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(rng.bytes(count), dtype).reshape(shape).copy()


def plain(value: Any) -> Any:
    return value.read() if isinstance(value, ca.CompressedArray) else value


def assert_same(got: Any, expected: Any) -> None:
    """The same shape, dtype and bytes."""
    got = plain(got)
    assert np.shape(got) == np.shape(expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    for name in np.asarray(expected).dtype.names or ():  # the padding between fields is nobody's value
        assert_same(got[name], expected[name])
    if not np.asarray(expected).dtype.names:
        assert np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(expected).tobytes()


def keys(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Any key that numpy takes for an array of this shape."""

    def is_taken(key: Any) -> bool:
        try:
            np.broadcast_to(np.zeros((), bool), shape)[key]
        except IndexError:
            return False
        return True

    return likely_keys(shape).filter(is_taken)


@st.composite
def likely_keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    kind = draw(st.sampled_from(["basic", "integers", "mask", "mixed"]))
    if kind == "basic" or not shape or 0 in shape:
        return draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    if kind == "integers":
        count = draw(st.integers(1, len(shape)))
        return draw(
            hnp.integer_array_indices(shape[:count], result_shape=hnp.array_shapes(min_dims=0, max_dims=2, max_side=4))
        )
    if kind == "mask":
        count = draw(st.integers(1, len(shape)))
        return draw(hnp.arrays(bool, shape[:count]))
    length = draw(st.integers(0, 3))
    parts: list[Any] = []
    if draw(st.integers(0, 9)) == 0:
        parts.append(draw(st.booleans()))
    for side in shape:
        choice = draw(st.sampled_from(["int", "slice", "array", "array", "newaxis", "stop"]))
        if choice == "stop":
            break
        if choice == "newaxis":
            parts.append(None)
            choice = "slice"
        if choice == "int":
            parts.append(draw(st.integers(-side, side - 1)))
        elif choice == "slice":
            parts.append(draw(st.slices(side)))
        else:
            parts.append(np.array(draw(st.lists(st.integers(-side, side - 1), min_size=length, max_size=length)), int))
    if draw(st.booleans()):  # anywhere, even where it stands for no axis at all
        parts.insert(draw(st.integers(0, len(parts))), ...)
    return tuple(parts)
