"""What options of the command line may say."""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """A number from 1 on.

    Raises:
        argparse.ArgumentTypeError: the text is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text!r}")
    return int(text)
