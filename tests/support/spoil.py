"""Ways to spoil a file: of any file by its bytes and its place on disk, of JSON, TOML and safetensors by their parts.

Every way is a function ``(path, random) -> what was done``. It draws what it needs from ``random`` alone, so a case can
be made again from its seed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

Way = Callable[[Path, Random], str]

HUGE = 10**400
STRANGE: list[Any] = [
    None, True, False, 0, 1, -1, 2**63, -(2**63) - 1, HUGE, 0.5, -1e300, 1e-320, "", "x", "inf", "nan", "x" * 5000,
    "../../x", "\ud800", "é\n\t\x00", [], [None], [[1.0], [2.0, 3.0]], ["x"], {}, {"a": 1}, {"": {"": []}},
]  # fmt: skip


def truncate(path: Path, random: Random) -> str:
    data = path.read_bytes()
    at = random.randrange(len(data) + 1)
    path.write_bytes(data[:at])
    return f"cut to {at} of {len(data)} bytes"


def flip(path: Path, random: Random) -> str:
    data = bytearray(path.read_bytes())
    places = sorted(random.randrange(len(data)) for _ in range(random.choice([1, 1, 1, 8]))) if data else []
    for place in places:
        data[place] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return f"bits flipped at {places}"


def insert(path: Path, random: Random) -> str:
    data = path.read_bytes()
    at = random.randrange(len(data) + 1)
    piece = random.choice([b"\x00", b"\xff\xfe", b"\n\n", b"{", b"]" * 2000, b"[" * 100_000, b"1" * 5000, b'"', b"NaN"])
    path.write_bytes(data[:at] + piece + data[at:])
    return f"{piece[:8]!r} × {len(piece)} inserted at {at}"


def empty(path: Path, random: Random) -> str:
    path.write_bytes(b"")
    return "emptied"


def remove(path: Path, random: Random) -> str:
    path.unlink()
    return "removed"


def repeat_line(path: Path, random: Random) -> str:
    lines = path.read_bytes().splitlines(keepends=True)
    place = random.randrange(len(lines)) if lines else 0
    path.write_bytes(b"".join([*lines[: place + 1], *lines[place:]]))
    return f"line {place + 1} repeated"


def drop_line(path: Path, random: Random) -> str:
    lines = path.read_bytes().splitlines(keepends=True)
    place = random.randrange(len(lines)) if lines else 0
    path.write_bytes(b"".join([*lines[:place], *lines[place + 1 :]]))
    return f"line {place + 1} dropped"


def swap(path: Path, random: Random) -> str:
    """Take the file of the same name from a neighbour."""
    others = sorted(other for other in path.parent.parent.glob(f"*/{path.name}") if other != path and other.is_file())
    if not others:
        return empty(path, random)
    other = random.choice(others)
    shutil.copyfile(other, path)
    return f"replaced by that of {other.parent.name}"


def become_special(path: Path, random: Random) -> str:
    """Put something else than a file in its place."""
    whole = path.with_name(f"{path.name}.whole")
    path.rename(whole)
    kind = random.choice(
        ["pipe", "directory", "link to itself", "link to nothing", "link to the file", "no permission"]
    )
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "no permission":
        shutil.copyfile(whole, path)
        path.chmod(0)
    else:
        path.symlink_to({"link to itself": path, "link to nothing": path.parent / "nothing"}.get(kind, whole))
    return f"became a {kind}"


BYTES: list[Way] = [truncate, flip, flip, insert, empty, remove, repeat_line, drop_line, swap, become_special]


def places_in(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every part of a JSON document, as the way to it."""
    yield place
    if isinstance(document, dict):
        for name, value in document.items():
            yield from places_in(value, (*place, name))
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield from places_in(value, (*place, number))


def change_part(document: Any, random: Random) -> tuple[Any, str]:
    """A document with one part of it changed, taken out or added."""
    *parts, last = random.choice([place for place in places_in(document) if place] or [("",)])
    holder = document
    for part in parts:
        holder = holder[part]
    what = random.choice(["change", "change", "change", "nudge", "drop", "add"])
    value = random.choice(STRANGE)
    told = f"{'.'.join(map(str, (*parts, last)))}: {what} {str(value)[:20]!r}"
    if not isinstance(holder, dict | list) or not holder:
        return value, f"the whole document became {str(value)[:20]!r}"
    if what == "drop":
        del holder[last]
    elif what == "add" and isinstance(holder, dict):
        holder[random.choice(["", "x", "epoch", "format", "run_id", "é"])] = value
    elif what == "add":
        holder.append(value)  # type: ignore[union-attr]  # else it is a list
    elif what == "nudge" and isinstance(holder[last], int | float):
        holder[last] = holder[last] + 1 if isinstance(holder[last], int) else holder[last] * 1.0001
    else:
        holder[last] = value
    return document, told


def change_json(path: Path, random: Random) -> str:
    document, told = change_part(json.loads(path.read_bytes()), random)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8", errors="surrogatepass")
    return told


def change_row(path: Path, random: Random) -> str:
    """One part of one line of JSON."""
    lines = path.read_text().splitlines()
    place = random.choice([random.randrange(len(lines)), len(lines) - 1])
    document, told = change_part(json.loads(lines[place]), random)
    lines[place] = json.dumps(document)
    path.write_text("".join(f"{line}\n" for line in lines))
    return f"line {place + 1}, {told}"


def change_header(path: Path, random: Random) -> str:
    """One part of a safetensors header, whose length is set right; or its length."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    if random.random() < 0.2:
        length = random.choice([0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1])
        path.write_bytes(length.to_bytes(8, "little") + data[8:])
        return f"header's length {length}"
    document = json.loads(data[8 : 8 + length])
    if random.random() < 0.5 and "faudit" in document.get("__metadata__", {}):
        inner, told = change_part(json.loads(document["__metadata__"]["faudit"]), random)
        document["__metadata__"]["faudit"] = json.dumps(inner)
    else:
        document, told = change_part(document, random)
    head = json.dumps(document).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data[8 + length :])
    return f"header, {told}"


def change_toml(path: Path, random: Random) -> str:
    """One value or key of a TOML file."""
    lines = path.read_text().splitlines()
    place = random.randrange(len(lines))
    values = ["", "0", "-1", "1e400", "nan", "[]", "[[]]", "{}", '"x"', "true", "1979-05-27", "9" * 5000, "[1, 'a']"]
    keys = ["", "seed", "rule", "grid", "[grid]", "[[include]]", "[[exclude]]", "with", "name", "x", "a.b.c", '"é"']
    key, _, value = lines[place].partition("=")
    if random.random() < 0.7:
        value = random.choice(values)
    else:
        key = random.choice(keys)
    lines[place] = key if key.startswith("[") else f"{key} = {value}"
    path.write_text("\n".join(lines) + "\n")
    return f"line {place + 1} became {lines[place][:40]!r}"


def ways_for(path: Path) -> list[Way]:
    """The ways that fit a file, by its name."""
    kind = {".json": [change_json] * 12, ".jsonl": [change_row] * 12, ".toml": [change_toml] * 10}
    return [*BYTES, *kind.get(path.suffix, [change_header] * 6 if path.suffix == ".safetensors" else [])]
