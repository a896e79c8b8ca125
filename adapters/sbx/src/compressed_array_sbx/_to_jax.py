"""From the host, or from a torch device, to JAX. The one module that imports jax, when something is handed over."""

from __future__ import annotations

from typing import Any

import torch


def to_jax(value: Any, device: Any = None) -> Any:
    """Returns an array of numpy, a tensor, or a dict of these, as JAX has them.

    JAX may share the memory and expects that nobody changes it: this is for arrays that were made for it.
    """
    import jax

    if value is None:
        return None
    if isinstance(value, dict):
        return {key: to_jax(part, device) for key, part in value.items()}
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" and jax.default_backend() == "cpu":  # torch was installed for a GPU, JAX was not
            value = value.cpu()
        value = jax.dlpack.from_dlpack(value.contiguous())
        return value if device is None else jax.device_put(value, device)
    return jax.device_put(value, device)
