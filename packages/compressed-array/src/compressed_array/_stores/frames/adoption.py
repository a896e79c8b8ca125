"""Groups of another store, taken over as they are: only the few frames that could not be read here are decoded.

The numbers in a group are changed to this store's: of its layout, of the group before it, and in its records of the
references that frames were coded against. A store keeps references for good, and every array that comes may bring one
more, so all but a few are not taken over: a frame coded against one, most often the first of a group, is coded again.
Groups that another store's codec packed are unpacked, since its dictionary would have to be kept for good as well.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native
from compressed_array._runtime.memory import map_memory, scratch
from compressed_array._runtime.payloads import Payloads
from compressed_array._runtime.types import Bytes, Words
from compressed_array._stores.frames import residuals
from compressed_array._stores.frames.engine import Engine
from compressed_array._stores.frames.engine_native import NativeEngine
from compressed_array._stores.frames.export import FrameExport
from compressed_array._stores.frames.groups import (
    BITPACKED,
    FIRST_PACKED,
    FREE,
    KIND_BITS,
    RECORDS,
    SLOTS,
    TAG_BITS,
    ZSTD,
    split_numbers,
)
from compressed_array._stores.frames.kernel_records import REWRITE_ARGUMENTS, filled
from compressed_array._stores.frames.lanes import ROOM
from compressed_array._stores.frames.policy import WritePolicy
from compressed_array._stores.frames.records import decode_frame, encode_frame, needed_by, split_records
from compressed_array._stores.frames.settings import AS_CHANGES, WriteSettings
from compressed_array._stores.frames.tables import MOST_REFERENCES, FrameTables
from compressed_array._stores.protocol import RecordNumbers
from compressed_array.codecs import _changes

UNKNOWN = -1
KERNELS = "_stores.frames.kernels.adoption"
MOST_TAKEN = 16  # references of others that are taken over, since all frames of a stream may need one


class Adoption:
    """Takes groups of other stores over, and knows which references came with them."""

    def __init__(self, frames: FrameTables, policy: WritePolicy) -> None:
        self._frames, self._policy = frames, policy
        self._by_content: dict[tuple[int, int], int] = {}  # numbers of references, by their size and checksum
        self._seen = 1  # references that are in there, or need not be
        self._taken = 0  # references that were others'

    def prepared(self, export: FrameExport, engine: Engine) -> tuple[Payloads, Words] | None:
        """Returns exported groups as they would be written here, and their tags; None where that cannot be done."""
        tag, size = export.tag.astype(np.int64), export.size.astype(np.int64)
        payloads = Payloads.in_one_buffer(export.data, np.cumsum(size) - size, size)
        packed = np.flatnonzero((tag >= FIRST_PACKED) & (tag < BITPACKED))
        if len(packed):
            parts = [export.codecs[int(tag[i]) - FIRST_PACKED].decode_part(payloads[i]) for i in packed.tolist()]
            payloads = _replaced(payloads, packed, Payloads.from_parts(parts))
            tag[packed] = RECORDS
        self._take_first(export)
        for number in np.unique(export.layout_of).tolist() if export.references else ():
            groups = np.flatnonzero((export.layout_of == number) & (tag == RECORDS))
            if len(groups):
                foreign = ForeignGroups(
                    payloads.select(groups), export.count[groups].astype(np.int64), export.references
                )
                written = self._rewritten(foreign, export.layouts[number].frame_nbytes, engine)
                if written is None:
                    return None
                payloads = _replaced(payloads, groups, written)
        return payloads, tag

    def put(
        self,
        export: FrameExport,
        payloads: Payloads,
        tag: Words,
        numbers: RecordNumbers,
        out: RecordNumbers,
        engine: Engine,
    ) -> Words:
        """Adds the groups to this store and writes the items' new numbers to `out`.

        Returns which groups they are. If it fails nothing has changed.
        """
        frames, groups, count = self._frames, self._frames.groups, len(tag)
        layouts = np.array([frames.number_of(layout) for layout in export.layouts])
        nbytes = np.array([layout.frame_nbytes for layout in export.layouts])[export.layout_of]
        # In time for the first reader: what is packed here later has to fit where that one unpacks it.
        most = int((export.count * (nbytes + ROOM)).max(initial=0))
        frames.raise_unpack_limit(most)
        taken = groups.next_free(count)
        free, entries = int(groups.counts[FREE]), np.zeros(count, groups.table.dtype)
        entries["size"], entries["count"], entries["layout"] = payloads.size, export.count, layouts[export.layout_of]
        entries["before"] = np.append(0, taken + 1)[export.before]
        of, slots = split_numbers(numbers)
        renumbered = np.where(numbers == 0, 0, np.append(taken, 0)[of] * SLOTS + slots + 1).astype(np.uint32)
        address = np.zeros(0, np.int64)
        try:
            address = frames.heap.append(payloads)
            entries["where"] = address | tag << TAG_BITS
            groups.fill(taken, entries)
            out[...] = renumbered
            engine.retain(renumbered.reshape(-1))
        except BaseException:
            out[...] = 0
            groups.undo_fill(taken, free)
            frames.heap.free(address, payloads.size[: len(address)])
            raise
        return taken

    def _take_first(self, export: FrameExport) -> None:
        """Takes over one reference if there is none here yet, since many frames may be coded against it."""
        settings = self._policy.settings
        if settings.reference == 0 and settings.layout == export.layouts[export.layout]:
            alike = [reference for reference in export.references if reference.size == settings.layout.frame_nbytes]
            for reference in alike[-1:]:
                self._policy.use_reference(np.array(reference))

    def _known_numbers(self, references: list[Bytes]) -> Words:
        """Returns the number here of each reference that an export may have, or `UNKNOWN`."""
        ours = self._frames.references
        for number in range(self._seen, len(ours)):
            self._by_content.setdefault(_content(ours[number]), number)
        self._seen = len(ours)
        known = np.full(MOST_REFERENCES, UNKNOWN, np.int64)
        known[0] = 0
        for number, reference in enumerate(references, 1):
            found = self._by_content.get(_content(reference), UNKNOWN)
            if found != UNKNOWN and np.array_equal(ours[found], reference):
                known[number] = found
        return known

    def _rewritten(self, foreign: ForeignGroups, nbytes: int, engine: Engine) -> Payloads | None:
        """Returns groups of frames of one size, with this store's references; None if it would not write such."""
        frames, settings = self._frames, self._policy.settings
        if settings.layout.frame_nbytes != nbytes:
            settings = replace(settings, reference=0, prediction=residuals.NO_PREDICTION)
        while True:
            known, may_request = self._known_numbers(foreign.references), self._may_take_reference
            if isinstance(engine, NativeEngine) and native(KERNELS) is not None:
                written = _rewritten_by_kernel(foreign, nbytes, known, may_request, settings, frames, engine)
            else:
                written = _rewritten_by_numpy(foreign, nbytes, known, may_request, settings, frames)
            if not isinstance(written, int):
                return written
            self._taken += 1
            frames.add_reference(np.array(foreign.references[written - 1]))

    @property
    def _may_take_reference(self) -> bool:
        """Whether one more reference of another store may be kept here."""
        return self._taken < MOST_TAKEN and self._frames.has_room_for_references


class ForeignGroups(NamedTuple):
    """Groups as another store wrote them, how many frames each has, and that store's references but the first."""

    payloads: Payloads
    counts: Words
    references: list[Bytes]


def _rewritten_by_kernel(
    foreign: ForeignGroups,
    nbytes: int,
    known: Words,
    may_request: bool,
    settings: WriteSettings,
    frames: FrameTables,
    engine: NativeEngine,
) -> Payloads | int | None:
    """Does what `_rewritten_by_numpy` does, by a kernel."""
    kernels, address_of, theirs = native(KERNELS), engine.address_of, [frames.references[0], *foreign.references]
    # Of which only what is written to costs anything.
    out = map_memory(int(foreign.payloads.size.sum() + foreign.counts.sum() * (nbytes + ROOM)))
    work, sizes = scratch(6 * (nbytes + (nbytes >> 8) + ROOM)), np.empty(len(foreign.counts), np.int64)
    ours = np.array([address_of(reference) for reference in frames.references], np.int64)
    places = np.zeros(MOST_REFERENCES, np.int64)
    places[: len(theirs)] = [address_of(reference) for reference in theirs]
    calls = None if frames.decoder is None else frames.decoder.calls()
    encoding, encoding_by_changes = engine.encoding(settings), engine.encoding(_by_changes(settings))
    packed = filled(
        REWRITE_ARGUMENTS,
        may_request=may_request,
        encoding=address_of(encoding),
        encoding_by_changes=address_of(encoding_by_changes),
        decompress=0 if calls is None else calls.functions.decompress,
        context=0 if calls is None else calls.decompressor.context,
        scratch=address_of(work),
    )
    arguments = known, places, ours, address_of(packed), address_of(out)
    status = kernels.rewrite_groups(foreign.payloads.addresses(), foreign.counts, nbytes, *arguments, sizes)
    if status == kernels.REWRITTEN:
        return Payloads.in_one_buffer(out, np.cumsum(sizes) - sizes, sizes)
    return None if status == kernels.NOT_WRITTEN_HERE else int(status)


def _rewritten_by_numpy(
    foreign: ForeignGroups, nbytes: int, known: Words, may_request: bool, settings: WriteSettings, frames: FrameTables
) -> Payloads | int | None:
    """Returns groups with this store's references, by their `known` numbers; frames that need others are coded again.

    For a frame that zstd or a codebook wrote, if asking is allowed, it returns the number of the missing reference
    instead; and None where anything is not as this store would write it.
    """
    groups, theirs = [], [frames.references[0], *foreign.references]
    by_changes = _by_changes(settings)
    for i, count in enumerate(foreign.counts.tolist()):
        records = []
        for kind, body in split_records(foreign.payloads[i], count):
            number, prediction, rest = needed_by(kind, body)
            if number >= len(known):
                return None
            if known[number] == UNKNOWN and kind == ZSTD and may_request:
                return number
            if known[number] == UNKNOWN:
                frame = np.empty(nbytes, np.uint8)
                decode_frame(kind, body, frame, theirs, frames.decoder)
                chosen = settings if kind == ZSTD else by_changes
                records.append(encode_frame(frame, None, AS_CHANGES, chosen, frames.references))
                continue
            record = body.tobytes()
            if known[number] != number:
                first = prediction & (1 << residuals.NUMBER_AT) - 1
                head = residuals.code_bytes(int(known[number]) << residuals.NUMBER_AT | first)
                record = (head if kind == ZSTD else bytes([known[number]])) + rest.tobytes()
            records.append(_changes.varint(len(record) << KIND_BITS | kind) + record)
        groups.append(np.frombuffer(b"".join(records), np.uint8))
    return Payloads.from_parts(groups)


def _by_changes(settings: WriteSettings) -> WriteSettings:
    """Returns settings by which no record is one of zstd's or by a codebook."""
    return replace(settings, zstd=None, prediction=residuals.NO_PREDICTION)


def _replaced(payloads: Payloads, which: npt.NDArray[np.intp], others: Payloads) -> Payloads:
    """Returns payloads of which some are replaced."""
    segment, offset, size = payloads.segment.copy(), payloads.offset.copy(), payloads.size.copy()
    segment[which], offset[which] = len(payloads.segments) + others.segment, others.offset
    size[which] = others.size
    return Payloads([*payloads.segments, *others.segments], segment, offset, size)


def _content(reference: Bytes) -> tuple[int, int]:
    return reference.size, zlib.crc32(reference.data)
