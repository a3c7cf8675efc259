"""Files are whole or absent, and what the operating system refuses is one line that says what to do."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from faudit.errors import StoreError
from faudit.store.files import contents, read_json, refusals, replacing, write_json, write_whole


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    write_whole(file, b"old")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for broken in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, broken, full)
            with pytest.raises(StoreError, match=r"No space left.*Free some space"):
                write_whole(file, b"new")
        assert file.read_bytes() == b"old" and [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_file_is_read_as_it_was_written_whatever_its_size(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000  # more than one read of the system
    write_whole(tmp_path / "a", data)
    assert contents(tmp_path / "a") == data
    write_json(tmp_path / "b.json", {"a": [1, None, "λ"]})
    assert read_json(tmp_path / "b.json") == read_json(tmp_path / "b.json", orjson.loads) == {"a": [1, None, "λ"]}


def test_what_is_no_number_is_never_written_as_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("loads", [json.loads, orjson.loads])
@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"{", "expected JSON"), (b"", "expected JSON"), (b"\xff", "expected JSON"), (b"[1]", "a JSON object, got list")],
)
def test_a_file_that_is_no_json_object_is_damaged(tmp_path: Path, loads: Any, data: bytes, expected: str) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(StoreError, match=expected) as caught:
        read_json(tmp_path / "a.json", loads)
    assert str(tmp_path / "a.json") in str(caught.value) and "\n" not in str(caught.value)


def test_a_replacement_takes_its_place_once_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "table"
    with replacing(file) as beside:
        beside.write_text("new")
        assert not file.exists()
    assert file.read_text() == "new"
    with pytest.raises(ZeroDivisionError), replacing(file) as beside:
        beside.write_text("half")
        raise ZeroDivisionError
    assert file.read_text() == "new" and [path.name for path in file.parent.iterdir()] == ["table"]


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "Free some space"),
        (errno.EACCES, "Give yourself permission"),
        (errno.EROFS, "on a disk that can be written"),
        (errno.ENOSYS, "on a disk that has file locks"),
        (errno.ENOTDIR, "that is not a file"),
        (errno.EIO, "Check the path"),
    ],
)
def test_a_refusal_names_the_path_the_reason_and_what_to_do(number: int, advice: str) -> None:
    with pytest.raises(StoreError, match=advice) as caught, refusals("runs/x"):
        raise OSError(number, os.strerror(number))
    assert str(caught.value).startswith(f"cannot use runs/x: {os.strerror(number)}. ")
