"""Shows how far the fields of a file are from those of another one: of a compressed copy from the original."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import h5py

from wilkins.compression.errors import CannotCopy
from wilkins.compression.quality import Quality, qualities
from wilkins.compression.spectrum import TOLERANCES, Kept
from wilkins.errors import UsageError
from wilkins.names import printable
from wilkins.terminal.tables import text_table

_WIDE = 1000
"""Letters of a name, or of what is said of it."""


def comparison(before: Path, after: Path, pattern: str, *, spectra: bool = False) -> str:
    """A table with a row for each dataset of numbers.

    Args:
        before: a file of HDF5 as it was.
        after: the one that is compared with it.
        pattern: of the paths of datasets.
        spectra: whether to compare power spectra, too.

    Raises:
        UsageError: a file cannot be read, or has no such dataset.
    """
    with contextlib.suppress(ImportError):  # brings the filters of compressed archives
        import hdf5plugin  # noqa: F401
    with _opened(before) as one, _opened(after) as other:
        try:
            found = list(qualities(one, other, pattern, spectra=spectra))
        except CannotCopy as error:
            raise UsageError(f"--compare: {error}; compare some with --dset") from error
        except OSError as error:
            raise UsageError(
                f"--compare: {printable(str(error), _WIDE)}; if a filter is missing: pip install hdf5plugin"
            ) from error
    if not found:
        raise UsageError(f"--compare: {before} has no dataset {pattern!r}; `h5ls -r {before}` lists them")
    rows = [_row(one) for one in found if not one.why]
    strange = ["NaN or inf"] if any(map(_strange, found)) else []
    powers = [f"spectrum within {100 * one:g} %" for one in TOLERANCES] if spectra else []
    head = ["dataset", "range", "largest error", "mean error", "PSNR", *powers, *strange]
    lines = [text_table(head, [row[: len(head)] for row in rows], {0, 1})] if rows else []
    return "\n".join([*lines, *(printable(f"{one.dset} {one.why}", _WIDE) for one in found if one.why)])


def _opened(path: Path) -> h5py.File:
    try:
        return h5py.File(path)
    except OSError as error:
        raise UsageError(f"--compare: {path} cannot be read as HDF5: {error}") from error


def _strange(one: Quality) -> bool:
    return bool(one.strange)


def _row(one: Quality) -> tuple[str, ...]:
    span = f"{one.low:.4g} to {one.high:.4g}" if one.low <= one.high else "-"
    ratio = f"{one.psnr:.1f} dB" if math.isfinite(one.psnr) else "-" if one.largest or one.strange else "exact"
    numbers = f"{one.largest:.3g}", f"{one.mean:.3g}", ratio
    return printable(one.dset, _WIDE), span, *numbers, *_spectrum(one.spectrum), str(one.strange)


def _spectrum(found: Kept | None) -> list[str]:
    if found is None:
        return []
    return [f"up to {one} of {found.highest}" for one in found.upto] or [found.why for _ in TOLERANCES]
