"""The page: one HTML file with its style, its scripts and its data inside, which asks no network for anything.

The data are JSON in which ``<`` is escaped, so that no text of a run can end the script element. The series are the
larger part; they are compressed, and the browser unpacks them. A content security policy allows only the scripts whose
checksums it names, and no request in a file. The scripts of the page insert text as text, never as HTML.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from faudit.report import vega
from faudit.report.collection import Collection

SCRIPTS = ("text.js", "data.js", "table.js", "plot.js", "sections.js", "main.js")  # in this order


def html(found: Collection, *, live: str = "") -> str:
    """The page of a collection. ``live`` is the stamp of a live page, which asks its server for changes."""
    own = "\n".join(asset(name) for name in SCRIPTS)
    data = {**found.document, "runs": found.runs, "live": live}
    parts = {
        "style": asset("style.css"),
        "vega": inside(vega.script()),
        "own": inside(own),
        "data": escaped(data),
        "series": packed(found.series),
    }
    asks = "'self'" if live else "'none'"
    scripts = " ".join(f"'sha256-{digest(parts[name])}'" for name in ("vega", "own"))
    # Vega compiles its expressions with Function, which 'unsafe-eval' allows; no data of a run become an expression.
    parts["policy"] = (
        f"default-src 'none'; script-src {scripts} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
        f"connect-src {asks}; base-uri 'none'; form-action 'none'"
    )
    pieces = asset("page.html").split("@@")  # text, name, text, name, …, text
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def asset(name: str) -> str:
    """A file of the page."""
    return (files("faudit.report") / "page" / name).read_text(encoding="utf-8")


def escaped(document: Any) -> str:
    """JSON that can stand inside a script element: no ``<``, and only ASCII."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def packed(series: Mapping[str, Any]) -> str:
    """JSON, compressed, as base64."""
    text = json.dumps(series, allow_nan=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(text, compresslevel=6, mtime=0)).decode()


def inside(script: str) -> str:
    """A script that can stand inside a script element."""
    assert "</script" not in script.lower() and "<!--" not in script, "would end the element"
    return script


def digest(text: str) -> str:
    """The checksum of a script for the policy."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
