"""Values for arrays, by whether the array's dtype holds them: the same for every kind of array."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

DOES_NOT_FIT: list[tuple[Any, Any]] = [
    (np.array([300, -5]), "u1"), (300, "u1"), (-1, "u8"), (2**63, "i8"), (2**64, "u8"), (10**30, "i8"),
    (1.5, "i4"), (np.nan, "i4"), (np.inf, "u1"), (2.0**63, "i8"), (2.0**64, "u8"), (-0.5, "?"), (2, "?"),
    (1e300, "f4"), (70000.0, "f2"), (2**53 + 1, "f8"), (2**24 + 1, "f4"), (2**64 - 1, "f8"), (1 + 2j, "f8"),
    (1e300 + 0j, "c8"), ("longer", "U3"), (b"longer", "S3"),
    (np.datetime64("2020-01-01T00:00:01"), "M8[D]"), (np.timedelta64(1500, "ms"), "m8[s]"),
    (np.array((1, 300), [("a", "i4"), ("b", "i4")]), [("a", "i4"), ("b", "u1")]),
    (np.array((2**53 + 1,), [("a", "i8")]), [("a", "f8")]), ((1.7, b"a"), [("a", "i4"), ("s", "S3")]),
    ((1, b"abcdef"), [("a", "i4"), ("s", "S3")]), ((1, 1e300), [("a", "i4"), ("f", "f4")]), (300, [("a", "u1")]),
    ([(1, 2), (3, 300)], [("a", "u1"), ("b", "u1")]), (([1, 300],), [("a", "u1", (2,))]),
    (np.datetime64("3000-01-01", "s"), "M8[ns]"), (np.timedelta64(10**15, "D"), "m8[ns]"),
    ("2020-01-01T00:00:01.5", "M8[s]"), (1e300 + 0j, "f4"), (complex("inf+1e300j"), "c8"),
]  # fmt: skip
FITS: list[tuple[Any, Any]] = [
    ([0, 255], "u1"), (2.0, "i4"), (True, "f4"), (1, "?"), (0.1, "f4"), (np.float64(1e-300), "f4"),
    (np.inf, "f2"), (np.nan, "f2"), (2**53, "f8"), (np.array([3 + 0j, 2]), "f4"), ("abc", "U3"), ("ab", "U3"),
    (np.datetime64("NaT"), "M8[s]"), (0.1, "c8"), (np.nan, "c8"), ([0.1, 0.2], "f8"), (np.array([0.1 + 0j, 2]), "f4"),
    (np.datetime64("2020-01-02", "D"), "M8[ns]"), (np.array([1, 2], ">i4"), "<i4"),
    (datetime.date(2020, 1, 1), "M8[us]"), ("2020-01-01", "M8[us]"), ((1, b"ab"), [("a", "i4"), ("s", "S3")]),
    ([(1, 2), (3, 4)], [("a", "u1"), ("b", "f4")]), (7, [("a", "u1"), ("b", "f4", (2,))]),
    (((1, 2), 3), [("p", [("x", "u1"), ("y", "u1")]), ("q", "f8")]),
]  # fmt: skip
