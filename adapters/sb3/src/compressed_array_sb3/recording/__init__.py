"""Recordings of games with SB3, and the names of `sb3_extra_buffers.recording`.

`RecordCallback` records while a model trains. The buffers take the arguments that those of sb3-extra-buffers take:
pictures of a known size, channels last, which are kept channels first. `compressed_array.recording` has buffers of the
same names that ask for no sizes, and take anything; the callback and `eval_model` record to either.
"""

from compressed_array_sb3.recording._callback import RecordCallback
from compressed_array_sb3.recording.base import BaseRecordBuffer
from compressed_array_sb3.recording.dummy_record_buffers import DummyRecordBuffer, FramelessRecordBuffer
from compressed_array_sb3.recording.record_buffer import CompressedRecordBuffer, RecordBuffer

__all__ = [
    "BaseRecordBuffer",
    "CompressedRecordBuffer",
    "DummyRecordBuffer",
    "FramelessRecordBuffer",
    "RecordBuffer",
    "RecordCallback",
]
