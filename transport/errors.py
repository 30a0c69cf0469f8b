"""What can go wrong with channels: each error says who, what was attempted, why it is wrong and how to mend it."""

from __future__ import annotations

from wilkins.errors import WilkinsError


class ChannelError(WilkinsError):
    """Any error of channels; each is also the built-in error that fits."""


class NoSuchDataset(ChannelError, KeyError):
    """A step has no dataset of this path."""

    def __str__(self) -> str:
        return str(self.args[0])


class NoSuchAttribute(ChannelError, KeyError):
    """A step has no attribute of this name."""

    def __str__(self) -> str:
        return str(self.args[0])


class NoSuchPort(ChannelError, FileNotFoundError):
    """What is to be read is neither an in-port of the task nor a file."""


class NotAReader(ChannelError, PermissionError):
    """This rank is none of a port's readers."""


class NoSuchDevice(ChannelError, LookupError):
    """A GPU is not there: what is missing, and the cure."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.args))


class WrongMemory(ChannelError, BufferError):
    """An array's memory is not where, or not as, it is needed."""


class Released(ChannelError, ValueError):
    """A step is used after it was released."""


class StillReferenced(ChannelError, BufferError):
    """A step cannot be let go of: arrays of it are referenced."""


class TypeNotSupported(ChannelError, TypeError):
    """An array's elements have a type that the other side does not know."""


class BadSelection(ChannelError, IndexError):
    """A selection does not fit the dataset."""


class Unreadable(ChannelError, OSError):
    """A step or a dataset cannot be read by HDF5."""


class NotPublished(ChannelError, OSError):
    """A step could not be written."""


class TooManySteps(ChannelError, OSError):
    """A rank holds as many steps as it can."""


class WrongProcess(ChannelError, RuntimeError):
    """A channel is used in a fork of the process that opened it."""


def suggestion(word: str, known: list[str], nothing: str = "it has no datasets") -> str:
    """``"; did you mean 'a/x'?"``, or what there is, shortened."""
    import difflib

    if close := difflib.get_close_matches(word, known, n=1, cutoff=0.6):
        return f"; did you mean {close[0]!r}?"
    if not known:
        return f"; {nothing}"
    shown = ", ".join(repr(name) for name in known[:8])
    return f"; there are {shown}" + (f" and {len(known) - 8} more" if len(known) > 8 else "")
