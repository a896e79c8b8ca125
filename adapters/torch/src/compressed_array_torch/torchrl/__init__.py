"""A storage for TorchRL's replay buffers; it needs the extra `torchrl`.

Its modules, from what TorchRL calls down to single items:

- `storage`: the storage itself, and its files
- `structure`: TensorDicts and trees taken apart into named tensors, and put together again
- `contents`, `columns`, `column`: rows of those, each tensor where its codec and its size put it
- `decoding`: a tensor that shows compressed rows, and decodes them when they are used
"""

from compressed_array_torch.torchrl.storage import CompressedStorage as CompressedStorage
from compressed_array_torch.torchrl.storage import CompressedStorageCheckpointer as CompressedStorageCheckpointer

__all__ = ["CompressedStorage", "CompressedStorageCheckpointer"]
