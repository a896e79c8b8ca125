"""Reading straight into tensors of torch."""

from __future__ import annotations

import numpy as np
import pytest

import compressed_array as ca

torch = pytest.importorskip("torch")

PLAIN = (np.arange(40 * 2 * 6 * 5) // 7 % 251).astype(np.uint8).reshape(40, 2, 6, 5)
ROWS, COLUMNS = np.array([3, 39, 3]), np.array([0, 1, 1])


@pytest.mark.parametrize("codec", ["delta", "gzip"])
def test_an_array_is_read_into_a_tensor(codec: str) -> None:
    array = ca.compress(PLAIN, item_ndim=2, codec=codec)
    for key in (..., (ROWS, COLUMNS), (5, slice(None), 2)):
        out = torch.zeros(PLAIN[key].shape, dtype=torch.uint8)
        assert array.read(key, out=out) is out
        np.testing.assert_array_equal(out.numpy(), PLAIN[key])


@pytest.mark.parametrize("shares_a_store", [True, False])
def test_a_pair_is_read_into_tensors(shares_a_store: bool) -> None:
    first = ca.compress(PLAIN, item_ndim=2, codec="delta")
    second = ca.zeros(PLAIN.shape, np.uint8, item_ndim=2, **({"store": first.store} if shares_a_store else {}))
    second[...] = PLAIN[::-1]
    outs = tuple(torch.zeros(3, 6, 5, dtype=torch.uint8) for _ in range(2))
    assert ca.read_pair(first, second, (ROWS, COLUMNS), outs) is outs
    np.testing.assert_array_equal(outs[0].numpy(), PLAIN[ROWS, COLUMNS])
    np.testing.assert_array_equal(outs[1].numpy(), PLAIN[::-1][ROWS, COLUMNS])


def test_what_cannot_be_written_to_is_refused() -> None:
    array = ca.compress(PLAIN, item_ndim=2)
    for out in (torch.zeros(2, requires_grad=True), torch.zeros(2, device="meta"), [0.0], "text"):
        with pytest.raises(ValueError, match="tensor in the host's memory"):
            array.read(out=out)
    with pytest.raises(ValueError, match="shape"):
        array.read(out=torch.zeros(2, dtype=torch.uint8))
    np.testing.assert_array_equal(array.read(), PLAIN)
