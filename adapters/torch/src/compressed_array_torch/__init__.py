"""Replay and rollout buffers for your own PyTorch training loop, with observations compressed in memory.

>>> import torch
>>> from compressed_array_torch import ReplayBuffer
>>> buffer = ReplayBuffer(10_000, 4, (4, 84, 84), (), obs_dtype=torch.uint8, action_dtype=torch.int64)
>>> obs = torch.zeros(4, 4, 84, 84, dtype=torch.uint8)
>>> zeros = torch.zeros(4)
>>> buffer.add(obs, zeros.long(), zeros, terminated=zeros, truncated=zeros, next_obs=obs)
>>> buffer.get(32).observations.shape
torch.Size([32, 4, 84, 84])
"""

from compressed_array_torch._base import BaseBuffer as BaseBuffer
from compressed_array_torch._base import ResetStrategy as ResetStrategy
from compressed_array_torch._version import __version__ as __version__
from compressed_array_torch.batches import PrioritizedReplayBatch as PrioritizedReplayBatch
from compressed_array_torch.batches import ReplayBatch as ReplayBatch
from compressed_array_torch.batches import RolloutBatch as RolloutBatch
from compressed_array_torch.batches import SequenceBatch as SequenceBatch
from compressed_array_torch.errors import BufferFullError as BufferFullError
from compressed_array_torch.errors import BufferOptionError as BufferOptionError
from compressed_array_torch.errors import BufferStateError as BufferStateError
from compressed_array_torch.errors import BusyBufferError as BusyBufferError
from compressed_array_torch.errors import NothingToSampleError as NothingToSampleError
from compressed_array_torch.errors import StepError as StepError
from compressed_array_torch.errors import WriterClosedError as WriterClosedError
from compressed_array_torch.errors import WriterLostWarning as WriterLostWarning
from compressed_array_torch.fields import Field as Field
from compressed_array_torch.prioritized_replay_buffer import PrioritizedReplayBuffer as PrioritizedReplayBuffer
from compressed_array_torch.replay_buffer import ReplayBuffer as ReplayBuffer
from compressed_array_torch.rollout_buffer import RolloutBuffer as RolloutBuffer
from compressed_array_torch.rollout_buffer import explained_variance as explained_variance
from compressed_array_torch.sequence_replay_buffer import SequenceReplayBuffer as SequenceReplayBuffer
from compressed_array_torch.shared_replay_buffer import SharedPrioritizedReplayBuffer as SharedPrioritizedReplayBuffer
from compressed_array_torch.shared_replay_buffer import SharedReplayBuffer as SharedReplayBuffer
from compressed_array_torch.shared_replay_buffer import SharedSequenceReplayBuffer as SharedSequenceReplayBuffer
from compressed_array_torch.stats_tracker import StatsTracker as StatsTracker
from compressed_array_torch.writers import Writer as Writer
