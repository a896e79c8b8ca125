"""What tests of trainings share, with SB3 and with SBX."""

from __future__ import annotations

from typing import Any

import pytest


def by_name(trainings: dict[str, Any]) -> Any:
    return pytest.mark.parametrize("training", [pytest.param(value, id=name) for name, value in trainings.items()])


def with_one_wrong_pixel(buffer: Any) -> Any:
    """A buffer's class, changed so that one pixel of the first sample is not what it was."""

    class Wrong(buffer):
        right = False

        def _get_samples(self, *args: Any, **kwargs: Any) -> Any:
            samples = super()._get_samples(*args, **kwargs)
            if not self.right:
                samples.observations[0, 0, 0, 0] ^= 1
                self.right = True
            return samples

    return Wrong
