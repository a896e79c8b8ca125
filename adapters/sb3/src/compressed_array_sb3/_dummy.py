"""`DummyCls`: in the place of a class that a saved model names, and that is not wanted any more."""

from __future__ import annotations

from typing import Any


class DummyCls:
    """Takes any arguments and does nothing: `DQN.load(path, custom_objects={"replay_buffer_class": DummyCls})`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass
