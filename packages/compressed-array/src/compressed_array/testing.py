"""`CodecTests`: the tests a codec has to pass to serve as one here. Subclass it where pytest collects it:

    class TestMine(CodecTests):
        codec = MyCodec()

Needs nothing but numpy until a test runs, and pytest then (the extra `testing` brings it).
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.payloads import Payloads
from compressed_array.abc import as_bytes_view
from compressed_array.codecs._batches import decode_batch, encode_batch

__all__ = ["CodecTests", "mutations", "sample_buffers"]

DTYPES = ("?", "u1", "i2", "<u4", ">i4", "u8", "f2", "f4", ">f8", "c16", "M8[us]", "S5", "U3", "i2,f4")


def sample_buffers() -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yields named arrays that codecs tend to get wrong: empty, tiny, constant, random, of every dtype.

    >>> next(sample_buffers())
    ('empty', array([], dtype=uint8))
    """
    rng = np.random.default_rng(7)
    yield "empty", np.empty(0, np.uint8)
    yield "one byte", np.array([7], np.uint8)
    for size in (2, 7, 8, 9, 255, 256, 257, 271, 272, 543, 4096, 70_000):
        yield f"{size} zeros", np.zeros(size, np.uint8)
        yield f"{size} random bytes", rng.integers(0, 256, size, np.uint8)
        yield f"{size} bits", rng.integers(0, 2, size, np.uint8)
    yield "ramp", np.arange(70_000, dtype=np.uint32)
    yield "image", np.repeat(np.repeat(rng.integers(0, 9, (4, 12, 14), np.uint8), 7, 1), 6, 2)
    yield "nan payloads", np.array([0x7FF8000000000001, 0x7FF8000000000002, 1 << 63, 0], np.uint64).view(np.float64)
    yield "signed zeros", np.array([0.0, -0.0, -0.0, 0.0], np.float32)
    yield "a scalar", np.array(3.5)
    for code in DTYPES:
        dtype = np.dtype(code)
        yield f"items of {code}", np.frombuffer(rng.bytes(60 * dtype.itemsize), np.uint8).view(dtype).reshape(3, 4, 5)
        yield f"zeros of {code}", np.zeros((3, 40), dtype)


def mutations(payload: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Yields payloads that no encoder wrote: cut, extended, with bits flipped, bytes replaced or stretches swapped.

    Args:
        payload: What an encoder did write.
        count: How many are made at random, beside three that are always tried. One that comes out as it went in is
            left out.
        seed: What the random ones are drawn by.

    >>> [len(bad) for bad in mutations(b"payload", count=0)]
    [0, 8, 14]
    """
    rng = np.random.default_rng(seed)
    yield b""
    yield payload + b"\0"
    yield payload + payload
    for k in range(count):
        data = bytearray(payload)
        where = int(rng.integers(0, max(len(data), 1)))
        if k % 4 == 0:
            data = data[:where]
        elif k % 4 == 1 and data:
            data[where] ^= 1 << int(rng.integers(0, 8))
        elif k % 4 == 2 and data:
            data[where] = int(rng.choice([0, 1, 127, 128, 254, 255]))
        else:
            data[where : where + 8] = rng.bytes(8)
        if bytes(data) != payload:
            yield bytes(data)


def _bytes(buf: Any) -> bytes:
    return as_bytes_view(buf).tobytes()


class CodecTests:
    """What every codec promises. `codec` is the one under test; `mutation_count` is how many bad payloads it meets."""

    codec: ClassVar[Any]
    mutation_count: ClassVar[int] = 400

    def test_round_trip(self) -> None:
        """What comes out is what went in, bit for bit, whatever the dtype and shape."""
        for name, array in sample_buffers():
            assert _bytes(self.codec.decode(self.codec.encode(array))) == array.tobytes(), name

    def test_input_kinds(self) -> None:
        """Any buffer is taken: bytes, bytearray, memoryview and arrays, on both ways, read-only or not."""
        raw = bytes(range(100)) * 3
        payload = _bytes(self.codec.encode(raw))
        for kind in (bytes, bytearray, memoryview, lambda b: np.frombuffer(b, np.uint8)):
            assert _bytes(self.codec.encode(kind(raw))) == payload
            assert _bytes(self.codec.decode(kind(payload))) == raw

    def test_input_is_not_changed(self) -> None:
        """Encoding and decoding leave the buffers they read as they were."""
        raw = np.arange(300, dtype=np.uint8)
        payload = bytearray(_bytes(self.codec.encode(raw)))
        before = bytes(payload)
        self.codec.decode(payload)
        assert payload == before
        assert (raw == np.arange(300, dtype=np.uint8)).all()

    def test_strided_input(self) -> None:
        """A view that is not contiguous is encoded in the order its elements have, or refused."""
        view = np.arange(400, dtype=np.int16).reshape(20, 20)[::2, ::-3]
        try:
            payload = self.codec.encode(view)
        except (ValueError, BufferError):
            return
        assert _bytes(self.codec.decode(payload)) == view.tobytes()

    def test_memory_order(self) -> None:
        """An array in Fortran order is encoded as it lies in memory, and comes back to such an `out`; or is refused."""
        array = np.asfortranarray(np.arange(60, dtype=np.int16).reshape(3, 4, 5))
        try:
            payload = self.codec.encode(array)
        except (ValueError, BufferError):
            return
        assert _bytes(self.codec.decode(payload)) == array.tobytes(order="F")
        out = np.zeros_like(array)
        assert out.flags.f_contiguous
        self.codec.decode(payload, out=out)
        assert (out == array).all()

    def test_decode_into_out(self) -> None:
        """`out` is filled, returned, and may be any writable buffer of the right size."""
        for name, array in sample_buffers():
            payload = self.codec.encode(array)
            out = np.full(array.nbytes, 0xA5, np.uint8)
            assert self.codec.decode(payload, out=out) is out, name
            assert out.tobytes() == array.tobytes(), name
            shaped = np.empty_like(array, order="C")
            self.codec.decode(payload, out=shaped)
            assert shaped.tobytes() == array.tobytes(), name

    def test_wrong_out_is_refused(self) -> None:
        """An `out` of another size raises, and no byte around it is touched."""
        payload = self.codec.encode(np.arange(1000, dtype=np.uint8))
        for size in (0, 1, 999, 1001, 2000):
            guarded = np.full(size + 64, 0xA5, np.uint8)
            _raises(self.codec.decode, payload, out=guarded[32 : 32 + size])
            assert (guarded[:32] == 0xA5).all()
            assert (guarded[32 + size :] == 0xA5).all()

    def test_config_survives_json(self) -> None:
        """A codec is what its config says, after JSON as well."""
        config = json.loads(json.dumps(self.codec.get_config()))
        assert config["id"] == self.codec.codec_id
        arguments = {k: v for k, v in config.items() if k != "id"}
        assert type(self.codec).from_config(arguments) == self.codec

    def test_repr_evaluates(self) -> None:
        """The repr is the code that makes the codec."""
        assert eval(repr(self.codec), {type(self.codec).__name__: type(self.codec)}) == self.codec

    def test_equality_and_hash(self) -> None:
        """Equal by config, so that a copy is the same codec; unequal to anything else."""
        twin = copy.deepcopy(self.codec)
        assert twin == self.codec
        assert self.codec != object()
        if getattr(self.codec, "__hash__", None) is not None and type(self.codec).__module__ != "numcodecs.abc":
            assert hash(twin) == hash(self.codec)

    def test_copies_work(self) -> None:
        """A pickled or copied codec, one that has been used, decodes what the first one encoded."""
        array = np.arange(5000, dtype=np.uint8)
        payload = self.codec.encode(array)
        for twin in (pickle.loads(pickle.dumps(self.codec)), copy.copy(self.codec), copy.deepcopy(self.codec)):
            assert twin == self.codec
            assert _bytes(twin.decode(payload)) == array.tobytes()
            assert _bytes(twin.decode(twin.encode(array))) == array.tobytes()

    def test_largest_payload(self) -> None:
        """No payload is longer than `max_encoded_size` says."""
        for name, array in sample_buffers():
            bound = getattr(self.codec, "max_encoded_size", lambda nbytes: None)(array.nbytes)
            if bound is not None:
                assert as_bytes_view(self.codec.encode(array)).size <= bound, name

    def test_batch_equals_loop(self) -> None:
        """A batch gives what single calls give, on one thread and on several."""
        rng = np.random.default_rng(3)
        for rows, nbytes in ((1, 1), (3, 7), (5, 64), (4, 300), (40, 40_000)):
            records = rng.integers(0, 3, (rows, nbytes), np.uint8)
            records[::2] = np.repeat(records[::2, ::8], 8, axis=1)[:, :nbytes]
            records[-1] = rng.integers(0, 256, nbytes, np.uint8)
            payloads = encode_batch(self.codec, records)
            assert len(payloads) == rows
            shrunk = np.flatnonzero(payloads.size < nbytes)
            for i in range(rows):
                alone = _bytes(self.codec.encode(records[i]))
                if i in shrunk:
                    assert _bytes(self.codec.decode(payloads[i])) == records[i].tobytes()
                else:
                    assert len(alone) >= nbytes, "a batch gives up on a record only where one call does not shrink it"
            self._check_decode_batch(payloads.select(shrunk), records[shrunk])
            parts = [as_bytes_view(self.codec.encode(r)) for r in records]
            self._check_decode_batch(Payloads.from_parts(parts), records)
            shuffled = rng.permutation(rows)
            self._check_decode_batch(Payloads.from_parts(parts).select(shuffled), records[shuffled])

    def test_mutated_payloads(self) -> None:
        """A payload no encoder wrote raises ValueError, or fills all of `out` and nothing else."""
        for name, array in _mutated_samples():
            payload = _bytes(self.codec.encode(array))
            for bad in mutations(payload, self.mutation_count, seed=len(payload)):
                part = Payloads.from_parts([np.frombuffer(bad, np.uint8)])
                alone = _decoded(lambda out, bad=bad: self.codec.decode(bad, out=out), array.nbytes)
                batch = _decoded(
                    lambda out, part=part: decode_batch(self.codec, part, out.reshape(1, -1)), array.nbytes
                )
                assert alone is None or batch is None or alone == batch, name
                try:
                    free = _bytes(self.codec.decode(bad))
                except ValueError:
                    continue
                assert len(free) <= 2**24, name
                assert alone is None or alone == free, name

    def test_one_bad_record_of_a_batch(self) -> None:
        """A corrupt payload in a batch raises; it is not passed over."""
        records = np.repeat(np.arange(40, dtype=np.uint8)[:, None], 20_000, axis=1)
        parts = [as_bytes_view(self.codec.encode(r)) for r in records]
        parts[33] = parts[33][: len(parts[33]) // 2]
        _raises(decode_batch, self.codec, Payloads.from_parts(parts), np.empty_like(records))

    def test_threads(self) -> None:
        """Threads may share a codec."""
        rng = np.random.default_rng(5)
        arrays = [np.repeat(rng.integers(0, 50, 500, np.uint8), k % 7 + 1) for k in range(64)]

        def round_trip(array: npt.NDArray[np.uint8]) -> bool:
            return all(_bytes(self.codec.decode(self.codec.encode(array))) == array.tobytes() for _ in range(5))

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(round_trip, arrays))

    def _check_decode_batch(self, payloads: Payloads, records: npt.NDArray[np.uint8]) -> None:
        out = np.full_like(records, 0xA5)
        decode_batch(self.codec, payloads, out)
        assert (out == records).all()


def _mutated_samples() -> Iterator[tuple[str, npt.NDArray[Any]]]:
    wanted = {"one byte", "9 zeros", "272 bits", "4096 random bytes", "4096 zeros", "image", "zeros of f4"}
    return ((name, array) for name, array in sample_buffers() if name in wanted)


def _raises(function: Any, *args: Any, **kwargs: Any) -> None:
    import pytest

    with pytest.raises(ValueError):  # noqa: PT011  # a codec's own ValueError: what it says is the codec's concern
        function(*args, **kwargs)


def _decoded(decode: Any, nbytes: int) -> bytes | None:
    """Returns what `decode` makes of an `out` of `nbytes`, or None if it raises; tried over two old contents."""
    results: list[bytes | None] = []
    for old in (0xA5, 0x5A):
        guarded = np.full(nbytes + 128, old, np.uint8)
        out = guarded[64 : 64 + nbytes]
        try:
            decode(out)
        except ValueError:
            results.append(None)
        else:
            results.append(out.tobytes())
        assert (guarded[:64] == old).all(), "something was written before out"
        assert (guarded[64 + nbytes :] == old).all(), "something was written behind out"
    assert results[0] == results[1], "out was not filled"
    return results[0]
