"""zstd: dictionaries, contexts of threads, and the batch path against the library's own interface."""

from __future__ import annotations

import base64
import copy
import ctypes
import json
import pickle
import threading

import numpy as np
import pytest

from compressed_array import CorruptPayloadError, UnknownCodecError, get_codec, shorthand
from compressed_array._runtime.payloads import Payloads

pytest.importorskip("zstandard")

from compressed_array.codecs.zstd import Zstd


def some_records(seed: int = 0) -> np.ndarray:
    """Records with much in common, as the frames of one game have."""
    rng = np.random.default_rng(seed)
    records = np.tile(np.random.default_rng(99).integers(0, 256, 600, np.uint8), (400, 1))
    records[:, rng.integers(0, 600, 20)] = rng.integers(0, 256, (400, 20))
    return records


@pytest.fixture(scope="module")
def trained() -> Zstd:
    return Zstd.train(some_records(), dict_size=2048)


def test_dictionary_pays(trained: Zstd) -> None:
    record = some_records(5)[0]
    assert len(trained.encode(record)) < len(Zstd(trained.level).encode(record)) / 2


def test_dictionary_is_part_of_the_codec(trained: Zstd) -> None:
    """It is in the config, the repr and every copy, and makes two codecs differ."""
    record = some_records(5)[0]
    payload = trained.encode(record)
    for twin in (
        get_codec(json.loads(json.dumps(trained.get_config()))),
        eval(repr(trained), {"Zstd": Zstd}),
        pickle.loads(pickle.dumps(trained)),
        copy.deepcopy(trained),
    ):
        assert twin == trained
        assert hash(twin) == hash(trained)
        assert bytes(twin.decode(payload)) == record.tobytes()
    assert trained != Zstd(trained.level)


def test_wrong_dictionary_is_refused(trained: Zstd) -> None:
    payload = trained.encode(some_records()[0])
    other = Zstd.train(some_records(1)[:, ::-1], dict_size=2048)
    for codec in (Zstd(), other):
        with pytest.raises(CorruptPayloadError):
            codec.decode(payload)


def test_too_few_samples() -> None:
    """An error that says how many are needed."""
    with pytest.raises(ValueError, match="at least 16 sample records"):
        Zstd.train(some_records()[:3])
    with pytest.raises(ValueError, match="16384 bytes in all"):
        Zstd.train([b"abc"] * 100)
    with pytest.raises(ValueError, match="at least 16 sample records"):
        Zstd.train([b""] * 20 + [bytes(20_000)])
    with pytest.raises(ValueError, match="at least 256 bytes"):
        Zstd.train(some_records(), dict_size=100)


@pytest.mark.parametrize("dictionary", [b"", b"no dictionary", "not base64!", b"\x37\xa4\x30\xec" + bytes(99)])
def test_bad_dictionary(dictionary: bytes | str) -> None:
    with pytest.raises(ValueError, match="dictionary is not"):
        Zstd(dictionary=dictionary)


@pytest.mark.parametrize("dictionary", [5, 1.5, ["a"], np.zeros(3)])
def test_dictionary_of_a_wrong_type(dictionary: object) -> None:
    with pytest.raises(TypeError, match="dictionary is not bytes"):
        Zstd(dictionary=dictionary)  # type: ignore[arg-type]  # what a caller may get wrong


def test_broken_dictionary(trained: Zstd) -> None:
    """One that only looks like one is refused when the codec is made: later, nothing would shrink, or come back."""
    noise = np.random.default_rng(0).bytes(2000)
    whole = base64.b64decode(trained.dictionary or "")
    for broken in (b"\x37\xa4\x30\xec\x01\0\0\0" + noise, whole[:40], whole[:8] + noise[:100]):
        with pytest.raises(ValueError, match="dictionary is broken"):
            Zstd(dictionary=broken)


def test_errors_of_the_library_are_reported(monkeypatch: pytest.MonkeyPatch, trained: Zstd) -> None:
    """Only too little room means that a record does not shrink; no other error may pass for that."""
    pytest.importorskip("numba")
    from compressed_array.codecs import _clib

    functions = _clib.zstd()
    if functions is None:
        pytest.skip("this build hides zstd's functions")
    records = some_records()
    with pytest.raises(RuntimeError, match="zstd failed to think: Dictionary is corrupted"):
        functions.check(2**64 - 30, "to think")  # -ZSTD_error_dictionary_corrupted
    codec = Zstd()
    native = codec._native()
    assert native is not None
    kernels, calls = native
    fails = ctypes.CFUNCTYPE(ctypes.c_size_t, *[ctypes.c_size_t] * 6)(lambda *args: 2**64 - 64)
    failing = copy.copy(calls)
    failing.functions = copy.copy(functions)
    failing.functions.with_level = ctypes.cast(fails, ctypes.c_void_p).value
    monkeypatch.setattr(Zstd, "_native", lambda self: (kernels, failing))
    with pytest.raises(MemoryError, match="zstd failed to compress"):
        codec.encode_batch(records)


def test_shorthand_of_a_trained_one() -> None:
    """It does not read as the same level without the dictionary."""
    assert shorthand(Zstd(19)) == "zstd19"
    text = shorthand(Zstd.train(some_records(), 19, 2048))
    assert text.startswith("Zstd(level=19, checksum=False, dictionary='N6Qw7")
    assert len(text) < 80
    with pytest.raises(UnknownCodecError):
        get_codec(text)


@pytest.mark.parametrize("level", [-100, -3, 1, 3, 19])
@pytest.mark.parametrize("with_dictionary", [False, True])
def test_batch_writes_what_single_calls_write(level: int, with_dictionary: bool) -> None:
    """A batch goes past the library's Python interface where it can: the bytes are the same."""
    records = some_records(3)[:40]
    codec = Zstd.train(some_records(), level, 2048) if with_dictionary else Zstd(level)
    payloads = codec.encode_batch(records)
    for i, record in enumerate(records):
        alone = bytes(codec.encode(record))
        assert payloads[i].tobytes() == alone or len(alone) >= record.size


def test_batch_without_kernels(monkeypatch: pytest.MonkeyPatch, trained: Zstd) -> None:
    """Where the library hides its functions, or numba is missing, batches go through it record by record."""
    records, out = some_records(3), np.empty((400, 600), np.uint8)
    fast = trained.encode_batch(records)
    monkeypatch.setattr("compressed_array.codecs.zstd.native", lambda module: None)
    slow = trained.encode_batch(records)
    assert all(fast[i].tobytes() == slow[i].tobytes() for i in range(400))
    trained.decode_batch(slow, out)
    assert (out == records).all()


def test_frame_without_size_is_refused() -> None:
    """A frame that does not say its size could decode to anything; a skippable frame is no frame of ours."""
    import zstandard

    stream = zstandard.ZstdCompressor().compressobj()
    for payload, nbytes in ((stream.compress(bytes(1000)) + stream.flush(), 1000), (b"\x50\x2a\x4d\x18" + bytes(4), 0)):
        with pytest.raises(CorruptPayloadError):
            Zstd().decode(payload)
        with pytest.raises(CorruptPayloadError):
            Zstd().decode(payload, out=bytearray(nbytes))
        part = Payloads.from_parts([np.frombuffer(payload, np.uint8)])
        with pytest.raises(CorruptPayloadError):
            Zstd().decode_batch(part, np.empty((1, nbytes), np.uint8))


def test_huge_claim_is_refused() -> None:
    """A size in the header is checked before memory is taken for it."""
    payload = bytearray(Zstd().encode(bytes(100_000)))
    assert payload[5:9] == (100_000).to_bytes(4, "little")
    payload[5:9] = b"\xff\xff\xff\xff"
    with pytest.raises(CorruptPayloadError, match="more than its size allows"):
        Zstd().decode(payload)


def test_contexts_end_with_their_thread() -> None:
    """A codec may meet many short-lived threads."""
    codec, records = Zstd(), np.repeat(some_records(), 16, axis=1)
    failures: list[BaseException] = []

    def use() -> None:
        try:
            out = np.empty_like(records)
            codec.decode_batch(codec.encode_batch(records), out)
            assert (out == records).all()
        except BaseException as error:
            failures.append(error)

    for _ in range(20):
        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
