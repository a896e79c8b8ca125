"""Law 9: nobody reaches the records but through the array.

`PYTHONPATH=tests/helpers python tests/core/laws/test_law9_nobody_reaches_the_records.py` prints what becomes of
each call.
"""

from __future__ import annotations

import array as arrays
import base64
import binascii
import copy
import ctypes
import hashlib
import io
import json
import mmap
import os
import pickle
import socket
import sqlite3
import struct
import zlib
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from core_helpers.calls_through_c import KINDS, Call, outcomes, print_table, wrong


def read_into(x: Any, t: Any) -> None:
    with t.path.open("rb") as file:
        file.readinto(x)


def receive(x: Any, t: Any) -> int:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(t.bytes or b"1")
        return ours.recv_into(x)


def send(x: Any, t: Any) -> bytes:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(x)
        theirs.close()
        return ours.recv(10000)


def written(x: Any, t: Any, **how: Any) -> bytes:
    with t.path.open("wb", **how) as file:
        file.write(x)
    return bytes(t.path.read_bytes())


def write_vector(x: Any, t: Any) -> bytes:
    with t.path.open("wb") as file:
        os.writev(file.fileno(), [x, x])
    return bytes(t.path.read_bytes())


def read_vector(x: Any, t: Any) -> None:
    with t.path.open("rb") as file:
        os.readv(file.fileno(), [x])


def in_database(x: Any, t: Any) -> Any:
    database = sqlite3.connect(":memory:")
    database.execute("create table t (b blob)")
    database.execute("insert into t values (?)", (x,))
    (row,) = database.execute("select b from t").fetchall()
    database.close()
    return row


def assign(target: Any, key: Any, value: Any) -> Any:
    target[key] = value
    return target


def in_file(x: Any, save: Any) -> bytes:
    file = io.BytesIO()
    save(file, x)
    return file.getvalue()


def through(x: Any, save: Any) -> Any:
    return np.load(io.BytesIO(in_file(x, save)), allow_pickle=True)


def mapped(x: Any, t: Any) -> bytes:
    with mmap.mmap(-1, 4096) as memory:
        memory.write(x)
        return memory[:]


def shuffled(x: Any, shuffle: Any) -> None:
    shuffle(x)


def make_writeable(x: Any) -> None:
    np.asarray(x).flags.writeable = True
    np.asarray(x)[...] = 0


WRITES: dict[str, Call] = {
    "rng.standard_normal(out=a)": lambda x, t: t.rng().standard_normal(out=x),
    "rng.standard_exponential(out=a)": lambda x, t: t.rng().standard_exponential(out=x),
    "rng.standard_gamma(2, out=a)": lambda x, t: t.rng().standard_gamma(2, out=x),
    "rng.random(out=a)": lambda x, t: t.rng().random(out=x),
    "rng.permuted(a, out=a)": lambda x, t: t.rng().permuted(x, out=x),
    "file.readinto(a)": read_into,
    "BytesIO.readinto(a)": lambda x, t: io.BytesIO(t.bytes).readinto(x),
    "BufferedReader.readinto1(a)": lambda x, t: io.BufferedReader(io.BytesIO(t.bytes)).readinto1(x),
    "socket.recv_into(a)": receive,
    "os.readv(fd, [a])": read_vector,
    "np.frombuffer(a, 'u1')[:] = 9": lambda x, t: assign(np.frombuffer(x, "u1"), slice(None), 9),
    "memoryview(a)[0] = 9": lambda x, t: assign(memoryview(x), 0, 9),
    "np.asarray(a)[...] = 0": lambda x, t: assign(np.asarray(x), ..., 0) is None,
    "np.asarray(a).flags.writeable = True": lambda x, t: make_writeable(x),
    "struct.pack_into('<d', a)": lambda x, t: struct.pack_into("<d", x, 0, 1.5),
    "ctypes.c_char.from_buffer(a)": lambda x, t: ctypes.c_char.from_buffer(x).value,
    "np.ctypeslib.as_ctypes(a)": lambda x, t: bytes(np.ctypeslib.as_ctypes(x)),
    "np.copyto(a, b)": lambda x, t: np.copyto(x, t.other),
    "np.putmask(a, a > 4, b)": lambda x, t: np.putmask(x, x > 4, t.other),
    "np.place(a, a > 4, [9])": lambda x, t: np.place(x, x > 4, [9]),
    "np.put(a, 0, 9)": lambda x, t: np.put(x, 0, 9),
    "np.add(b, b, out=a)": lambda x, t: np.add(t.other, t.other, out=x),
    "np.matmul(b, eye, out=a)": lambda x, t: np.matmul(t.other, np.eye(6), out=x),
    "np.take(b, [0, 0, 0, 0], 0, out=a)": lambda x, t: np.take(t.other, np.zeros(len(x), int), 0, out=x),
    "np.dot(b, eye, out=a)": lambda x, t: np.dot(t.other, np.eye(6), out=x),
    "plain.dot(plain, out=a)": lambda x, t: np.eye(x.shape[-1]).dot(np.ones(x.shape[-1]), out=x),
    "plain.sum(0, out=a)": lambda x, t: np.ones((3, *x.shape), x.dtype).sum(0, out=x),
    "plain.take([...], out=a)": lambda x, t: np.arange(9.0).take(np.zeros(x.shape, int), out=x, mode="clip"),
    "plain.clip(0, 1, out=a)": lambda x, t: np.ones(x.shape, x.dtype).clip(0, 1, out=x),
    "plain.round(out=a)": lambda x, t: np.ones(x.shape, x.dtype).round(out=x),
    "np.einsum('...->...', b, out=a)": lambda x, t: np.einsum("...->...", t.other, out=x),
    "a.sort()": lambda x, t: x.sort(),
    "a.byteswap(inplace=True)": lambda x, t: settled_bytes(x.byteswap(inplace=True)),
    "rng.shuffle(a)": lambda x, t: shuffled(x, t.rng().shuffle),
    "np.random.shuffle(a)": lambda x, t: shuffled(x, np.random.RandomState(3).shuffle),
}

READS: dict[str, Call] = {
    "f.write(a)": written,
    "f.write(a), no buffer": lambda x, t: written(x, t, buffering=0),
    "BytesIO(a)": lambda x, t: io.BytesIO(x).getvalue(),
    "BytesIO.write(a)": lambda x, t: in_file(x, lambda file, v: file.write(v)),
    "sock.sendall(a)": send,
    "os.writev(fd, [a, a])": write_vector,
    "mmap.write(a)": mapped,
    "hashlib.sha1(a)": lambda x, t: hashlib.sha1(x).digest(),
    "hashlib.blake2b().update(a)": lambda x, t: hashlib.blake2b(x).digest(),
    "hashlib.sha1(np.asarray(a))": lambda x, t: hashlib.sha1(np.asarray(x)).digest(),
    "hashlib.sha1(np.ascontiguousarray(a))": lambda x, t: hashlib.sha1(np.ascontiguousarray(x)).digest(),
    "np.array(a).tobytes()": lambda x, t: np.array(x).tobytes(),
    "np.asarray(a).tobytes()": lambda x, t: np.asarray(x).tobytes(),
    "np.asarray(a, order='F').tobytes()": lambda x, t: np.asarray(x, order="F").tobytes(),
    "np.require(a, requirements='CO')": lambda x, t: np.require(x, requirements="CO"),
    "zlib.compress(a)": lambda x, t: zlib.compress(x),
    "zlib.crc32(a)": lambda x, t: zlib.crc32(x),
    "binascii.hexlify(a)": lambda x, t: binascii.hexlify(x),
    "base64.b64encode(a)": lambda x, t: base64.b64encode(x),
    "struct.unpack_from('<d', a)": lambda x, t: struct.unpack_from("<d", x),
    "sqlite3 BLOB": in_database,
    "memoryview(a)": lambda x, t: memoryview(x).tobytes(),
    "bytes(a)": lambda x, t: bytes(x),
    "bytearray(a)": lambda x, t: bytearray(x),
    "b''.join([a])": lambda x, t: b"".join([x]),
    "b'...'.find(a)": lambda x, t: t.bytes.find(x),
    "array.array('B').frombytes(a)": lambda x, t: assign_bytes(arrays.array("B"), x),
    "array.array('d', a)": lambda x, t: arrays.array("d", x).tobytes(),
    "np.frombuffer(a)": lambda x, t: np.frombuffer(x),
    "np.ndarray(buffer=a)": lambda x, t: np.ndarray((1,), "u1", buffer=x),
    "np.lib.format.write_array(f, a)": lambda x, t: in_file(x, np.lib.format.write_array),
    "np.save(f, a)": lambda x, t: in_file(x, np.save),
    "np.save(f, [a, a])": lambda x, t: through([x, x], np.save),
    "np.savez(f, a)": lambda x, t: through(x, np.savez)["arr_0"],
    "np.savetxt(f, a)": lambda x, t: in_file(x, np.savetxt),
    "a.tofile(f)": lambda x, t: (x.tofile(t.path), t.path.read_bytes())[1],
    "a.tobytes()": lambda x, t: x.tobytes(),
    "a.data": lambda x, t: bytes(x.data),
    "a.ctypes": lambda x, t: ctypes.string_at(x.ctypes.data, x.nbytes),
    "a.__array_interface__": lambda x, t: bool(x.__array_interface__),
    "a.__array_struct__": lambda x, t: bool(x.__array_struct__),
    "a.dumps()": lambda x, t: pickle.loads(x.dumps()),
    "pickle.dumps(a)": lambda x, t: pickle.loads(pickle.dumps(x)),
    "pickle, out of band": lambda x, t: out_of_band(x),
    "pickle.dumps(np.asarray(a))": lambda x, t: pickle.loads(pickle.dumps(np.asarray(x))),
    "pickle.PickleBuffer(a)": lambda x, t: bytes(pickle.PickleBuffer(x)),
    "copy.deepcopy(a)": lambda x, t: copy.deepcopy(x),
    "copy.copy(np.asarray(a))": lambda x, t: copy.copy(np.asarray(x)),
    "json.dumps(a)": lambda x, t: json.dumps(x),
    "json.dumps(a.tolist())": lambda x, t: json.dumps(x.tolist()),
    "np.from_dlpack(a)": lambda x, t: np.from_dlpack(x),
    "np.ctypeslib.as_array(a)": lambda x, t: np.ctypeslib.as_array(x),
    "np.lib.stride_tricks.as_strided(a)": lambda x, t: np.lib.stride_tricks.as_strided(x),
    "sliding_window_view(a, 1)": lambda x, t: np.lib.stride_tricks.sliding_window_view(x, 1, 0),
    "a.view('u1')": lambda x, t: x.view("u1"),
    "np.asarray(a).view('u1')": lambda x, t: np.asarray(x).view("u1"),
    "a.getfield('u1')": lambda x, t: x.getfield("u1"),
}

COMPARISONS: dict[str, Call] = {
    "a == b": lambda x, t: x == t.other,
    "np.array_equal(a, b)": lambda x, t: np.array_equal(x, t.other),
    "np.array_equal(asarray(a), asarray(b))": lambda x, t: np.array_equal(np.asarray(x), np.asarray(t.other)),
    "np.array_equiv(asarray(a), asarray(b))": lambda x, t: np.array_equiv(np.asarray(x), np.asarray(t.other)),
    "np.asarray(a) == np.asarray(a)": lambda x, t: np.asarray(x) == np.asarray(x),
    "np.asarray(a) == 3": lambda x, t: np.asarray(x) == 3,
    "np.asarray(a) < np.asarray(b)": lambda x, t: np.asarray(x) < np.asarray(t.other),
    "np.asarray(a).tolist() == np.asarray(b).tolist()": lambda x, t: (
        np.asarray(x).tolist() == np.asarray(t.other).tolist()
    ),
    "np.allclose(np.asarray(a), np.asarray(b))": lambda x, t: np.allclose(np.asarray(x), np.asarray(t.other)),
    "assert_array_equal(a, b)": lambda x, t: np.testing.assert_array_equal(x, t.other),
    "assert_array_equal([a], [b])": lambda x, t: np.testing.assert_array_equal([x], [t.other]),
    "assert_array_equal([a, a], [b, b])": lambda x, t: np.testing.assert_array_equal([x, x], [t.other, t.other]),
    "assert_allclose([a], [b])": lambda x, t: np.testing.assert_allclose([x], [t.other]),
    "assert_array_equal(asarray(a), asarray(b))": lambda x, t: np.testing.assert_array_equal(
        np.asarray(x), np.asarray(t.other)
    ),
    "np.isin(np.asarray(a), np.asarray(b))": lambda x, t: np.isin(np.asarray(x), np.asarray(t.other)),
}

OTHERS: dict[str, Call] = {
    "np.array(a)": lambda x, t: np.array(x),
    "np.array(a, subok=True)": lambda x, t: np.array(x, subok=True),
    "np.array(a, float)": lambda x, t: np.array(x, float),
    "np.array(a, str)": lambda x, t: np.array(x, str),
    "np.array(a, object)": lambda x, t: np.array(x, object),
    "np.array([a, a])": lambda x, t: np.array([x, x]),
    "np.array([a, a], float)": lambda x, t: np.array([x, x], float),
    "plain[...] = a": lambda x, t: assign(np.zeros(x.shape, x.dtype), ..., x),
    "plain[a > 4] = 0": lambda x, t: assign(np.ones(x.shape), x > 4, 0),
    "plain[a]": lambda x, t: np.arange(99)[x],
    "print(np.asarray(a))": lambda x, t: str(np.asarray(x)),
    "np.asarray(a).tolist()": lambda x, t: np.asarray(x).tolist(),
    "np.asarray(a)[0]": lambda x, t: np.asarray(x)[0],
    "list(np.asarray(a))": lambda x, t: list(np.asarray(x)),
    "np.asarray(a).sum()": lambda x, t: np.asarray(x).sum(),
    "np.asarray(a).any()": lambda x, t: np.asarray(x).any(),
    "np.asarray(a).max()": lambda x, t: np.asarray(x).max(),
    "np.asarray(a).nonzero()": lambda x, t: np.asarray(x).nonzero(),
    "np.asarray(a).argsort()": lambda x, t: np.asarray(x).argsort(),
    "np.sort(np.asarray(a))": lambda x, t: np.sort(np.asarray(x)),
    "np.unique(np.asarray(a))": lambda x, t: np.unique(np.asarray(x)),
    "np.asarray(a).astype(float)": lambda x, t: np.asarray(x).astype(float),
    "np.random.permutation(a)": lambda x, t: np.random.RandomState(3).permutation(x),
    "rng.permutation(a)": lambda x, t: t.rng().permutation(x),
    "np.random.choice(a)": lambda x, t: np.random.RandomState(3).choice(x),
    "np.random.choice(a, 3)": lambda x, t: np.random.RandomState(3).choice(x, 3),
    "rng.choice(a)": lambda x, t: t.rng().choice(x),
    "rng.choice(a, 3)": lambda x, t: t.rng().choice(x, 3),
    "rng.permuted(a)": lambda x, t: t.rng().permuted(x),
    "rng.normal(a)": lambda x, t: t.rng().normal(x),
    "rng.integers(0, a + 1)": lambda x, t: t.rng().integers(0, x + 1),
    "rng.integers(0, a)": lambda x, t: t.rng().integers(0, x),
    "rng.multinomial(5, a)": lambda x, t: t.rng().multinomial(5, x),
    "np.random.default_rng(a)": lambda x, t: np.random.default_rng(x).random(),
    "np.random.seed(a)": lambda x, t: np.random.RandomState(x).random(),
    "np.ndenumerate(a)": lambda x, t: [(i, v) for (i, v), _ in zip(np.ndenumerate(x), range(3), strict=False)],
    "np.nditer(a)": lambda x, t: [v.item() for v in np.nditer(x, flags=["zerosize_ok"])],
    "np.nditer([a, b])": lambda x, t: [v[0].item() for v in np.nditer([x, t.other], flags=["zerosize_ok"])],
    "np.nested_iters(a, ...)": lambda x, t: len(np.nested_iters(x, [[0], []])),
    "np.broadcast(a, a)": lambda x, t: [v for v, _ in zip(np.broadcast(x, x), range(3), strict=False)],
    "np.broadcast_arrays(a, 1)": lambda x, t: np.broadcast_arrays(x, 1),
    "np.broadcast_shapes(a.shape)": lambda x, t: np.broadcast_shapes(x.shape),
    "np.ones(9, int).dot(a)": lambda x, t: np.ones(x.shape[0], int).dot(x),
    "np.ones(9) @ a": lambda x, t: np.ones(x.shape[0]) @ x,
    "np.ones(9).searchsorted(a)": lambda x, t: np.ones(9).searchsorted(x),
    "np.arange(9).take(a)": lambda x, t: np.arange(99).take(x),
    "np.arange(9).repeat(a)": lambda x, t: np.arange(9).repeat(x),
    "plain.choose(a)": lambda x, t: np.zeros(3, int).choose(x),
    "np.choose(plain, a)": lambda x, t: np.choose(np.zeros(3, int), x),
    "np.arange(9).compress(a)": lambda x, t: np.arange(9).compress(x),
    "np.bincount(a)": lambda x, t: np.bincount(x),
    "np.lexsort((a,))": lambda x, t: np.lexsort((x,)),
    "np.vectorize(f)(a)": lambda x, t: np.vectorize(lambda v: v + 1)(x),
    "np.frompyfunc(f, 1, 1)(a)": lambda x, t: np.frompyfunc(lambda v: v + 1, 1, 1)(x),
    "np.fromiter(a, float)": lambda x, t: np.fromiter(x, float),
    "np.ma.array(a).sum()": lambda x, t: np.ma.array(x).sum(),
    "np.matrix(a)": lambda x, t: np.asarray(np.matrix(x) + 0),
    "np.rec.array(a)": lambda x, t: np.asarray(np.rec.array(x)),
    "np.linalg.norm(a)": lambda x, t: np.linalg.norm(x),
    "np.fft.fft(a)": lambda x, t: np.fft.fft(x),
    "np.polynomial.Polynomial(a)": lambda x, t: np.polynomial.Polynomial(x)(2.0),
    "sum(a)": lambda x, t: sum(x),
    "sorted(a)": lambda x, t: sorted(x),
    "max(a)": lambda x, t: max(x),
    "set(a)": lambda x, t: sorted(set(x)),
    "float(a)": lambda x, t: float(x),
    "'%s' % np.asarray(a)": lambda x, t: f"{np.asarray(x)}",
}


def settled_bytes(x: Any) -> bytes:
    return bytes(x.tobytes())


def assign_bytes(into: Any, x: Any) -> bytes:
    into.frombytes(x)
    return bytes(into.tobytes())


def out_of_band(x: Any) -> Any:
    buffers: list[pickle.PickleBuffer] = []
    return pickle.loads(pickle.dumps(x, protocol=5, buffer_callback=buffers.append), buffers=buffers)


CALLS = WRITES | READS | COMPARISONS | OTHERS
QUICK = ("labels", "rows", "a buffer")
# These go through all elements of what they find before they fail, which takes a second, and find the same always.
LONG = {
    "np.save(f, [a, a])",
    "pickle.dumps(np.asarray(a))",
    "np.asarray(a).tolist() == np.asarray(b).tolist()",
    "np.array(a, object)",
    "np.asarray(a).tolist()",
}


@pytest.mark.same_everywhere
@pytest.mark.parametrize("kind", [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in KINDS])
def test_every_call_through_c_is_right_or_refused(kind: str) -> None:
    calls = [name for name in CALLS if kind == "a view" or name not in LONG]
    answers = outcomes(__file__, kind, calls)
    assert list(answers) == calls
    assert not wrong(answers)


def test_numpy_names_the_way_that_works() -> None:
    array = ca.compress(np.arange(24.0).reshape(4, 6))
    seen = np.asarray(array)
    assert "use a.read()" in seen.dtype.names
    for use in (lambda: seen == seen, lambda: str(seen), lambda: seen.nonzero(), lambda: seen.argsort()):
        with pytest.raises(ca.UnsupportedOperationError, match=r"a\.read\(\)"):
            use()
    for copy_of in (np.array, np.ascontiguousarray, np.random.permutation, np.unique):
        with pytest.raises(MemoryError, match=r"a\.read\(\)"):
            copy_of(seen)
    for dtype in (np.uint8, float, str):
        with pytest.raises(TypeError, match=r"cast.*a\.read\(\)"):
            np.array(array, dtype)
    with pytest.raises(ca.UnsupportedOperationError, match=r"a\.read\(\)"):
        _ = np.ndarray.view(array).shape


if __name__ == "__main__":
    print_table(__file__)
