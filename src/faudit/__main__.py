"""``python -m faudit``."""

from __future__ import annotations

import sys

from faudit.cli.main import main

sys.exit(main())
