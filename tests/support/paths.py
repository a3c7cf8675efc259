"""Where the checkout is."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHOTS = Path(os.environ.get("FAUDIT_SHOTS", ROOT / "tmp" / "shots"))  # pictures for people to look at
