"""Every error faudit expects, in one tree: the command line prints it as one line and exits with 2.

A message says what is wrong, what was expected, what came, where, and what to do about it. Anything that is not a
``FauditError`` is a bug of ours and keeps its traceback.
"""

from __future__ import annotations


class FauditError(Exception):
    """The root: catch this to catch everything faudit refuses on purpose."""


class ConfigError(FauditError):
    """A setting that does not exist, or a value it cannot take."""


class DataError(FauditError):
    """A dataset file that is missing, damaged, hostile or of the wrong shape."""


class StoreError(FauditError):
    """A run directory that cannot be read, written or locked."""


class LockedError(StoreError):
    """A run that another process is training."""


class DamagedError(StoreError):
    """A run whose files are cut, changed or taken from another run."""


class CheckpointError(DamagedError):
    """A checkpoint that cannot be read back whole, or that belongs to another run."""


class ModelError(FauditError):
    """A foreign model, its taps, its batches or its credit callable that cannot be audited."""


OUT_OF_MEMORY = (
    "out of memory: expected a command that fits into this machine and the limits set for it, got one that does not. "
    "Choose a smaller net, --batch-size or --eval-size, or allow more memory; a run that has begun can go on."
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory ran out, in the words of Python, torch or the loader of libraries."""
    said = ("can't allocate memory", "out of memory", "failed to map segment", "cannot allocate memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | OSError | ImportError) and any(words in str(error) for words in said)
    )
