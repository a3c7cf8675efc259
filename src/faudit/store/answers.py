"""Which test samples a network answered rightly: one bit per sample, kept as text in ``done.json``.

Two networks that were tested on the same samples can then be compared sample by sample. The bits of a run are one whole
number. No array library is imported, because the command line starts with this module.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable

from faudit.errors import StoreError
from faudit.store.run import Run, damaged

KEY = "test_right"  # the entry of done.json


def of(run: Run) -> str | None:
    """The answers of a run as they are kept, checked against the size of its test set; None if it kept none."""
    text = (run.outcome() or {}).get(KEY)
    samples = run.rows()[-1].get("test_samples") if text is not None else None
    if text is None or samples is None:
        return None
    try:
        unpacked(text, samples)
    except StoreError as error:
        raise damaged(run.path / "done.json", str(error)) from None
    return str(text)


def packed(right: Iterable[bool]) -> str:
    """The bits as base64, the first sample in the highest bit: 1.7 kB for 10,000 samples."""
    bits = "".join("1" if one else "0" for one in right)
    whole = bits.ljust((len(bits) + 7) // 8 * 8, "0")
    return base64.b64encode(int(whole or "0", 2).to_bytes(len(whole) // 8, "big")).decode()


def unpacked(text: str, samples: int) -> int:
    """The bits of so many samples as one number; raises if the text does not hold that many."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        data = b""
    if len(data) != (samples + 7) // 8:
        raise StoreError(f"{KEY}: expected one bit for each of {samples} samples, got {len(data)} bytes")
    return int.from_bytes(data, "big") >> (8 * len(data) - samples)
