"""From the host, or from a torch device, to JAX. No other module imports jax, and this one only when it is called."""

from __future__ import annotations

from typing import Any

import torch


def to_jax(value: Any, device: Any = None) -> Any:
    """Returns a numpy array, a tensor, or a dict of these, as JAX arrays.

    JAX may share the memory and expects that it never changes: this is for arrays that were made to be handed over.
    """
    import jax

    if value is None:
        return None
    if isinstance(value, dict):
        return {key: to_jax(part, device) for key, part in value.items()}
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" and jax.default_backend() == "cpu":  # torch was installed for a GPU, JAX was not
            value = value.cpu()
        if value.device.type == "cpu":  # by DLPack it would come to JAX's CPU, whatever its default device is
            return jax.device_put(value.numpy(), device)
        value = jax.dlpack.from_dlpack(value.contiguous())
        return value if device is None else jax.device_put(value, device)
    return jax.device_put(value, device)
