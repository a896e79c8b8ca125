"""Errors cross processes as they are."""

from __future__ import annotations

import pickle

import pytest

import compressed_array as ca

pytestmark = pytest.mark.same_everywhere


def test_errors_with_arguments_of_their_own_are_pickled() -> None:
    for error in (ca.UnknownCodecError("a", ["b", "c"]), ca.CodecUnavailableError("zstd", "zstd")):
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is type(error)
        assert str(back) == str(error)
        assert back.codec_id == error.codec_id
