"""Moves steps between tasks: the native layer and its Python face."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wilkins.transport.channel import Channel, open
    from wilkins.transport.errors import ChannelError
    from wilkins.transport.publishing import NewStep, create, publish
    from wilkins.transport.received import Step

__all__ = ["Channel", "ChannelError", "NewStep", "Step", "create", "open", "publish"]

_PLACES = {
    "Channel": "channel",
    "ChannelError": "errors",
    "NewStep": "publishing",
    "Step": "received",
    "create": "publishing",
    "open": "channel",
    "publish": "publishing",
}


def __getattr__(name: str) -> Any:
    """The names of channels, looked up when they are asked for: a launcher needs neither h5py nor NumPy."""
    if name not in _PLACES:
        raise AttributeError(f"module 'wilkins.transport' has no attribute {name!r}")
    return getattr(import_module(f"wilkins.transport.{_PLACES[name]}"), name)
