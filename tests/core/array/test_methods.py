"""Everything ndarray has is told anew, or is known to be right as it is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.mixins import NDArrayOperatorsMixin

import compressed_array as ca

pytestmark = pytest.mark.same_everywhere

HARMLESS = {
    "device": "the table's, which is the host's as the items are",
    "dump": "pickles, and so goes through __reduce_ex__",
    "dumps": "pickles, and so goes through __reduce_ex__",
    "__array_namespace__": "numpy itself",
    "__array_priority__": "a number",
    "__class_getitem__": "for type hints",
    "__delitem__": "always an error",
    "itemset": "an error since numpy 2.0",
    "newbyteorder": "an error since numpy 2.0",
    "ptp": "an error since numpy 2.0",
    "__dlpack_device__": "the host",
}


def test_every_attribute_of_ndarray_is_overridden_or_harmless() -> None:
    inherited = set(dir(np.ndarray)) - set(dir(object)) | {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
    ours = {name for cls in ca.CompressedArray.__mro__ if cls not in (np.ndarray, object) for name in vars(cls)}
    assert inherited - ours - set(HARMLESS) == set(), "ndarray has something nobody has looked at"
    assert not set(HARMLESS) & ours
    assert NDArrayOperatorsMixin in ca.CompressedArray.__mro__


def test_the_logical_array_is_what_is_described() -> None:
    array = ca.zeros((7, 3, 4, 5), np.dtype(">f4"), item_ndim=2, codec="gzip/3")
    assert (array.shape, array.grid_shape, array.item_shape) == ((7, 3, 4, 5), (7, 3), (4, 5))
    assert (array.ndim, array.size, array.itemsize, array.nbytes, len(array)) == (4, 420, 4, 1680, 7)
    assert array.dtype == ">f4"
    assert ca.shorthand(array.codec) == "gzip3"
    assert array.nbytes_stored > 0
    assert array.ratio == array.nbytes / array.nbytes_stored
    for part in ("(7, 3, 4, 5)", ">f4", "items of (4, 5)", "gzip3", "1,680 bytes", "ratio"):
        assert part in repr(array)


def test_the_default_item_is_all_but_the_first_axis() -> None:
    for shape, item in [((5, 4, 3), (4, 3)), ((5, 4), (4,)), ((5,), (5,)), ((), ())]:
        assert ca.zeros(shape).item_shape == item


def test_it_is_an_ndarray() -> None:
    array = ca.zeros((3, 4))
    assert isinstance(array, np.ndarray)
    assert type(array.read()) is np.ndarray
    assert type(array[0]) is np.ndarray
    assert type(array + 1) is np.ndarray
    assert type(array.__array__(np.int8)) is np.ndarray


def test_flags_and_base_are_those_of_the_logical_array() -> None:
    array, like = ca.zeros((3, 4)), np.zeros((3, 4))
    for a in (array, like):
        view = a[1:]
        assert a.base is None
        assert view.base is a
        assert (a.flags.owndata, a.flags["W"], view.flags.owndata, view.flags.writeable) == (True, True, False, True)
        a.flags.writeable = False
        later = a[:2]
        assert (a.flags.writeable, view.flags["WRITEABLE"], later.flags.writeable) == (False, True, False)
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
            later.setflags(write=True)
        with pytest.raises(ValueError, match="read-only"):
            later[0] = 1
        view[0] = 5
        a.setflags(write=True)
        later.flags["WRITEABLE"] = True
        later[0] = 1
        assert a[:, 0].tolist() == [1, 5, 0]
        with pytest.raises(KeyError):
            a.flags["unheard of"]
    assert not array.flags.c_contiguous
    assert not array.flags["F"]
    assert "WRITEABLE : True" in repr(array.flags)
