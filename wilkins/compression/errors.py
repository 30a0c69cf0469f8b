"""Errors of compression."""

from wilkins.errors import WilkinsError


class CannotCopy(WilkinsError, ValueError):
    """The file holds what a copy would not keep; says what. It can still be copied byte for byte."""


class CannotUnpack(WilkinsError, ValueError):
    """Bytes are not those of a packed block; says what is wrong."""
