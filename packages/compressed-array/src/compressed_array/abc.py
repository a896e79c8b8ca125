"""`Codec`: what a compression method has to offer to serve as the codec of a `CompressedArray`.

The contract is numcodecs': `codec_id`, `encode`, `decode`, `get_config`, `from_config`; two codecs are equal when
their configs are, and a repr evaluates to the codec. So a numcodecs codec works here unmodified, and one written for
us works there. Two classes may share a `codec_id` only if each takes the other's configs, and decodes what the other
encoded under the same one. A contiguous array is encoded in memory order (C or Fortran), which the decoder must know;
any other in C order.

Ours may offer more, and whatever they do not offer is filled in by a loop: `encode_batch` and `decode_batch` handle
many records in one call, `max_encoded_size` bounds a payload, `for_dtype` adapts the codec to an array's items.

A codec is shared by threads, so `encode` and `decode` must not keep state between calls that another call could see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.memory import scratch
from compressed_array._runtime.payloads import Payloads
from compressed_array._runtime.threads import over_rows
from compressed_array.codecs._bounded import decode_up_to
from compressed_array.errors import CorruptPayloadError, UnsupportedOperationError

__all__ = ["Buffer", "Codec", "as_bytes_view", "decode_each", "deliver", "encode_each", "writable_bytes_view"]

Buffer = bytes | bytearray | memoryview | npt.NDArray[Any]


def as_bytes_view(buf: Buffer, most: int | None = None) -> npt.NDArray[np.uint8]:
    """Returns the bytes of a buffer as they lie in memory, as a flat uint8 array, without a copy where possible.

    Args:
        buf: Anything with a buffer: bytes, a memoryview, an array.
        most: How many bytes it may have at the most; more raise a ValueError.

    >>> as_bytes_view(np.array([1, 256], "<u2"))
    array([1, 0, 0, 1], dtype=uint8)
    """
    if isinstance(buf, memoryview):
        buf = np.asarray(buf)  # whose elements may be objects, and in Fortran order
    if isinstance(buf, np.ndarray):
        _refuse_compressed(buf)
        view = np.ascontiguousarray(buf.T if buf.flags.fnc else buf).reshape(-1).view(np.uint8)
    else:
        view = np.frombuffer(buf, dtype=np.uint8)
    check_size(view.size, most)
    return view


def check_size(nbytes: int, most: int | None) -> None:
    """Refuses a buffer that is larger than a codec takes."""
    if most is not None and nbytes > most:
        raise ValueError(f"this codec takes buffers of up to {most} bytes, not {nbytes}")


def _refuse_compressed(array: npt.NDArray[Any]) -> None:
    # By its type: this module is below the array's, and asking the array itself would wait for its writers.
    if hasattr(type(array), "nbytes_stored"):
        raise UnsupportedOperationError(
            "the memory of a compressed array is a table of where its items are; give the items themselves, a.read()"
        )


def deliver(decoded: Buffer, out: Buffer | None) -> Buffer:
    """Returns decoded bytes as they are, or `out` with the bytes copied into it, which they have to fill exactly.

    Args:
        decoded: What a codec decoded.
        out: What `decode` was given to decode into, or None. Other bytes than it has room for raise a
            `CorruptPayloadError`.

    >>> deliver(b"abc", None), deliver(b"abc", bytearray(3))
    (b'abc', bytearray(b'abc'))
    """
    if out is None:
        return decoded
    source, target = as_bytes_view(decoded), writable_bytes_view(out)
    if source.size != target.size:
        raise CorruptPayloadError(f"payload decodes to {source.size} bytes where {target.size} belong")
    target[:] = source
    return out


def writable_bytes_view(out: Buffer) -> npt.NDArray[np.uint8]:
    """Returns the memory of `out` as flat uint8; `out` has to be writable and contiguous, as a copy would be lost.

    Args:
        out: What `decode` was given to decode into: a bytearray, a memoryview, an array.

    >>> out = bytearray(3)
    >>> writable_bytes_view(out)[:] = 65
    >>> out
    bytearray(b'AAA')
    """
    if isinstance(out, memoryview):
        out = np.asarray(out)
    if isinstance(out, np.ndarray):
        _refuse_compressed(out)
        if not out.flags.forc or not out.flags.writeable:
            raise ValueError("out must be a writable array whose memory is contiguous, in C or in Fortran order")
        return (out.T if out.flags.fnc else out).reshape(-1).view(np.uint8)
    view = np.frombuffer(out, dtype=np.uint8)
    if not view.flags.writeable:
        raise ValueError("out must be writable")
    return view


class Codec(ABC):
    """A lossless compression method for buffers of bytes.

    A subclass has a `codec_id`, `encode` and `decode`. Whatever public attributes its constructor sets are its config.

    >>> class Reversed(Codec):
    ...     codec_id = "reversed"
    ...
    ...     def encode(self, buf):
    ...         return as_bytes_view(buf)[::-1].tobytes()
    ...
    ...     def decode(self, buf, out=None):
    ...         return deliver(self.encode(buf), out)
    >>> Reversed().decode(Reversed().encode(b"abc"))
    b'abc'
    """

    codec_id: ClassVar[str]
    # The loops of the batch methods are shared among threads only for a codec that says its calls work long without
    # the GIL. For any other, threads gain nothing, and handing the GIL to and fro costs more than a short call.
    releases_gil: ClassVar[bool] = False
    # The largest buffer that is taken, in bytes, if there is a limit; an instance may be given one of its own.
    max_buffer_size: int | None = None

    @abstractmethod
    def encode(self, buf: Buffer) -> Buffer:
        """Returns the payload for the bytes of a buffer.

        Args:
            buf: What to encode, as `as_bytes_view` takes it.
        """

    @abstractmethod
    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        """Returns the bytes that were encoded.

        Args:
            buf: A payload.
            out: A writable buffer to decode into, which the bytes must fill exactly; it is returned.
        """

    def max_encoded_size(self, nbytes: int) -> int | None:
        """Returns the size of the largest payload that so many bytes can make, or None where the codec cannot say.

        Args:
            nbytes: The size of the buffer to be encoded.
        """
        return None

    def for_dtype(self, dtype: np.dtype[Any]) -> Codec:
        """Returns this codec, or one like it that is adapted to items of a dtype where that helps.

        Args:
            dtype: The dtype of the items of an array.
        """
        return self

    def encode_batch(self, records: npt.NDArray[np.uint8]) -> Payloads:
        """Encodes each row of an array, and returns the payloads.

        A payload at least as long as its row means "does not shrink"; the caller stores the row instead, so its
        content need not be valid.

        Args:
            records: A C-contiguous array of shape (n, nbytes).
        """
        return encode_each(self, records)

    def decode_batch(self, payloads: Payloads, out: npt.NDArray[np.uint8]) -> None:
        """Decodes payload i into row i of an array.

        Args:
            payloads: As many as there are rows.
            out: A C-contiguous array of shape (n, nbytes), which each payload must fill exactly.
        """
        decode_each(self, payloads, out)

    def get_config(self) -> dict[str, Any]:
        """Returns the codec as a dict that survives JSON; `from_config` makes the codec from it again."""
        public = {k: v for k, v in vars(self).items() if not k.startswith("_") and k != "max_buffer_size"}
        return {"id": self.codec_id, **public}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Returns the codec that `get_config` described.

        Args:
            config: What `get_config` returned. Its `id` is not looked at.
        """
        return cls(**{k: v for k, v in config.items() if k != "id"})

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy is made like the codec itself, so that a missing library is named where it is unpickled.
        return type(self).from_config, ({k: v for k, v in self.get_config().items() if k != "id"},)

    def __eq__(self, other: object) -> bool:
        # Of whatever class: one of another library that shares the id is compatible.
        config = getattr(other, "get_config", None)
        return config is not None and not isinstance(other, type) and self.get_config() == config()

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        words = (f"{k}={v!r}" for k, v in self.get_config().items() if k != "id")
        return f"{type(self).__name__}({', '.join(words)})"


def encode_each(codec: Any, records: npt.NDArray[np.uint8]) -> Payloads:
    """Encodes each row of an array with anything that has numcodecs' `encode`, and returns the payloads.

    One that would be no shorter than its row has the row's length, and no content, as `Codec.encode_batch` allows.

    Args:
        codec: The codec.
        records: A C-contiguous array of shape (n, nbytes).

    >>> from compressed_array import get_codec
    >>> payloads = encode_each(get_codec("gzip"), np.zeros((3, 1000), np.uint8))
    >>> len(payloads), bool((payloads.size < 100).all())
    (3, True)
    """
    count, row = len(records), records[0].nbytes if len(records) else 0
    # Each payload is copied out of the library's memory at once: hundreds of them alive together leave holes behind
    # that no allocator gives back. Those of a range lie together, where its records would: room enough for them.
    memory = scratch(count * row)
    offset, size = np.arange(count) * row, np.full(count, row, np.int64)

    def work(low: int, high: int) -> None:
        at = low * row
        for i in range(low, high):
            payload = as_bytes_view(codec.encode(records[i]))
            if payload.size < row:
                memory[at : at + payload.size] = payload
                offset[i], size[i] = at, payload.size
                at += payload.size

    over_rows(work, count, records.nbytes, threads=getattr(codec, "releases_gil", False))
    return Payloads.in_one_buffer(memory, offset, size)


def decode_each(codec: Any, payloads: Payloads, out: npt.NDArray[np.uint8]) -> None:
    """Decodes payload i into row i of an array with anything that has numcodecs' `decode`.

    Whatever that raises becomes a `CorruptPayloadError`.

    Args:
        codec: The codec.
        payloads: As many as there are rows.
        out: A C-contiguous array of shape (n, nbytes), which each payload must fill exactly.

    >>> from compressed_array import get_codec
    >>> gzip, records = get_codec("gzip"), np.full((3, 1000), 7, np.uint8)
    >>> out = np.empty_like(records)
    >>> decode_each(gzip, encode_each(gzip, records), out)
    >>> bool((out == records).all())
    True
    """

    def work(low: int, high: int) -> None:
        for i in range(low, high):
            try:
                if isinstance(codec, Codec):
                    codec.decode(payloads[i], out=out[i])
                else:  # other libraries' codecs may fill half of an `out` and say nothing; this compares the sizes
                    deliver(decode_up_to(codec, payloads[i], out[i].nbytes), out[i])
            except (CorruptPayloadError, MemoryError):
                raise
            except Exception as error:
                raise CorruptPayloadError(f"codec {codec.codec_id!r} does not decode payload {i}: {error}") from error

    over_rows(work, len(out), out.nbytes, threads=getattr(codec, "releases_gil", False))
