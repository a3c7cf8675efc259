"""Run tests against spoiled copies of the package, each in a fork of one process that has imported torch.

    python tests/support/mutator.py JOBS.json

JOBS is [{"root": DIR, "tests": NODE, "answer": FILE}, …]; each FILE gets pytest's exit code and closing lines as JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path

import hypothesis  # noqa: F401 - imported once here, not once in every child
import numpy  # noqa: F401 - the same
import pytest
import safetensors.torch  # noqa: F401 - the same
import torch  # noqa: F401 - the same


def verdict(root: Path, tests: str) -> dict[str, object]:
    """What pytest says of the copy under ``root``, in this process."""
    os.chdir(root)
    sys.path[:0] = [str(root / "src"), str(root)]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        quick = [] if "::" in tests else ["-m", "not slow"]  # a file of laws has thousands of slow pairs
        code = pytest.main(
            ["-x", "-q", "-p", "no:cacheprovider", "--rootdir", str(root), "-c", os.devnull, *quick, tests]
        )
    import faudit

    assert faudit.__file__.startswith(str(root)), "the tests ran against another copy"
    return {"code": int(code), "said": said.getvalue()[-1500:]}


def main(jobs: list[dict[str, str]]) -> None:
    sys.dont_write_bytecode = False  # the copies share what is compiled
    for job in jobs:
        answer = Path(job["answer"])
        child = os.fork()
        if child == 0:
            try:
                answer.write_text(json.dumps(verdict(Path(job["root"]), job["tests"])))
            finally:
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
