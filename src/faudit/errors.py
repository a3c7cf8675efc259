"""The errors that faudit raises on purpose. The command line prints each as one line and exits with 2.

A message says what is wrong, what was expected, what was found, where, and what to do. Any other exception is a bug in
faudit and keeps its traceback.
"""

from __future__ import annotations


class FauditError(Exception):
    """Base class of every error that faudit raises on purpose."""


class ConfigError(FauditError):
    """An unknown setting, or an invalid value of a setting."""


class DataError(FauditError):
    """A dataset file that is missing, damaged, malicious or of the wrong shape."""


class StoreError(FauditError):
    """A run directory that cannot be read, written or locked."""


class LockedError(StoreError):
    """A run that another process holds."""


class DamagedError(StoreError):
    """A run with a file that is truncated, edited or from another run."""


class CheckpointError(DamagedError):
    """A checkpoint that is damaged or belongs to another run."""


class Diverged(FauditError):
    """A phase of a learning rule that diverged. Training records it and ends the run as failed."""

    def __init__(self, phase: str, problem: str) -> None:
        super().__init__(f"diverged in the {phase} phase: {problem}")
        self.phase = phase


class ModelError(FauditError):
    """A foreign model, taps, batches or credit callable that cannot be audited."""


OUT_OF_MEMORY = (
    "out of memory: expected a command that fits into the memory and limits of this machine, got one that does not. "
    "Choose a smaller net, --batch-size or --eval-size, or allow more memory. A run that has begun can be resumed."
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory ran out: in Python, in torch or while a shared library was loaded."""
    messages = ("can't allocate memory", "out of memory", "failed to map segment", "cannot allocate memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | OSError | ImportError) and any(message in str(error) for message in messages)
    )


def error_text(error: BaseException) -> str:
    """The type and the first line of an exception from the caller's code."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}" + (f": {lines[0].rstrip('.')}" if lines else "")
