"""``python -m faudit`` and the ``faudit`` script: a Ctrl-C during the imports is answered too."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line."""
    try:
        from faudit.cli.main import main as command

        return command()
    except KeyboardInterrupt:  # before the command line could answer it
        print("\nfaudit: interrupted.", file=sys.stderr)
        return 130


def leave_working_directory_out() -> None:
    """Take out of the path of imports what ``-m`` put there: a random.py of the user's would stand for Python's own."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was deleted
        return
    holds_faudit = here == os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.path[0] == here and not holds_faudit and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]


if __name__ == "__main__":
    leave_working_directory_out()
    sys.exit(main())
