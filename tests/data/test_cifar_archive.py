"""CIFAR's archive: read in memory by exact member names; a hostile or damaged archive is one line."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from faudit.data import cifar
from faudit.data.cifar import load
from faudit.errors import DataError
from tests.support.cifar_files import FIRST, TINY, assert_is_tiny, batches, members, pack


@pytest.mark.parametrize("prefix", ["cifar-10-batches-py/", "./cifar-10-batches-py/"])
def test_archive_is_read_in_any_order_and_nothing_is_unpacked(tmp_path: Path, prefix: str) -> None:
    shuffled = [*reversed(members(batches(), prefix)), (tarfile.TarInfo(prefix + "readme.html"), b"hello")]
    archive = pack(tmp_path / "cifar-10-python.tar.gz", shuffled)
    assert_is_tiny(load(TINY, tmp_path))
    assert list(tmp_path.iterdir()) == [archive]


def link(name: str, kind: bytes, target: str = "/etc/passwd") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (tarfile.TarInfo(f"../{FIRST}"), f"outside the archive: expected {FIRST}, got '../{FIRST}'"),
        (tarfile.TarInfo(f"cifar-10-batches-py/../{FIRST}"), "outside the archive"),
        (tarfile.TarInfo(f"/{FIRST}"), "outside the archive"),
        (link(FIRST, tarfile.SYMTYPE), f"{FIRST} is not a file: .*got a link or device"),
        (link(FIRST, tarfile.LNKTYPE), "got a link or device"),
        (link(FIRST, tarfile.CHRTYPE), "got a link or device"),
        (link(FIRST, tarfile.FIFOTYPE), "got a link or device"),
        (link(FIRST, tarfile.DIRTYPE), "got a link or device"),
        (link(FIRST, tarfile.GNUTYPE_SPARSE), "got a link or device"),
        (tarfile.TarInfo("elsewhere/data_batch_1"), "no data_batch_1: expected all in cifar-10-batches-py/"),
    ],
)
def test_a_member_that_only_pretends_is_refused(tmp_path: Path, member: tarfile.TarInfo, message: str) -> None:
    files = batches()
    content = files.pop("data_batch_1") if member.isreg() else b""
    pack(tmp_path / "cifar-10-python.tar.gz", [(member, content), *members(files)])
    with pytest.raises(DataError, match=message):
        load(TINY, tmp_path)


def test_a_member_twice_or_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack(tmp_path / "cifar-10-python.tar.gz", [*members(batches()), *members(batches())])
    with pytest.raises(DataError, match=f"each file once .* got '{FIRST}'"):
        load(TINY, path)
    monkeypatch.setattr(cifar, "MAX_MEMBERS", 3)
    with pytest.raises(DataError, match="at most 3 members, got 'cifar-10-batches-py/data_batch_4'"):
        load(TINY, path)


def test_an_archive_that_swells_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar, "MAX_ARCHIVE", 1 << 22)
    pack(tmp_path / "skipped.tar.gz", [(tarfile.TarInfo("zeros"), bytes(1 << 25)), *members(batches())])
    pack(tmp_path / "tail.tar.gz", members(batches()))
    with open(tmp_path / "tail.tar.gz", "ab") as archive:
        archive.write(gzip.compress(bytes(1 << 25)))
    long_name = tarfile.TarInfo("x" * (1 << 25))  # a header of 32 MB that tarfile reads whole
    pack(tmp_path / "header.tar.gz", [(long_name, b""), *members(batches())])
    for name in ("skipped", "tail", "header"):
        tracemalloc.start()
        with pytest.raises(DataError, match="archive too large"):
            load(TINY, tmp_path / f"{name}.tar.gz")
        assert tracemalloc.get_traced_memory()[1] < 3 << 22
        tracemalloc.stop()


def test_an_archive_cut_or_with_a_flipped_bit_is_refused_or_read_right(tmp_path: Path) -> None:
    path = pack(tmp_path / "cifar-10-python.tar.gz", members(batches()))
    raw = path.read_bytes()
    choose = random.Random(0)
    for end in [0, 1, 2, 9, len(raw) - 1, *choose.sample(range(len(raw)), 20)]:
        path.write_bytes(raw[:end])
        with pytest.raises(DataError):
            load(TINY, tmp_path)
    for _ in range(60):
        flipped = bytearray(raw)
        flipped[choose.choice([choose.randrange(20), choose.randrange(len(raw))])] ^= 1 << choose.randrange(8)
        path.write_bytes(flipped)
        try:
            assert_is_tiny(load(TINY, tmp_path))  # gzip's own checksum leaves nothing between
        except DataError as error:
            assert str(path) in str(error)


def broken_archives() -> dict[str, bytes]:
    """What each part of the standard library raises in its own way."""
    good = io.BytesIO()
    with tarfile.open(fileobj=good, mode="w") as archive:
        for member, content in members(batches()):
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    sparse = tarfile.TarInfo("sparse")
    sparse.pax_headers = {"GNU.sparse.map": "not a number", "GNU.sparse.size": "1"}
    long_name = tarfile.TarInfo("name")
    long_name.type, long_name.size = tarfile.GNUTYPE_LONGNAME, 4
    endless, sparse_endless = tarfile.TarInfo("endless"), tarfile.TarInfo("endless")
    endless.size = sparse_endless.size = 1 << 62
    sparse_endless.type = tarfile.GNUTYPE_SPARSE
    chain = (long_name.tobuf(tarfile.GNU_FORMAT) + b"abc".ljust(512, b"\0")) * 3000
    return {
        "not a gzip": good.getvalue(),
        "not a tar": gzip.compress(b"hello" * 1000),
        "empty": gzip.compress(b""),
        "bad deflate": gzip.compress(good.getvalue(), 0)[:30_000] + b"\xff" * 30_000,
        "sparse map": gzip.compress(sparse.tobuf(tarfile.PAX_FORMAT) + good.getvalue()),
        "headers of headers": gzip.compress(chain + good.getvalue()),
        "endless member": gzip.compress(endless.tobuf(tarfile.GNU_FORMAT) + good.getvalue()),
        "endless sparse member": gzip.compress(sparse_endless.tobuf(tarfile.GNU_FORMAT) + good.getvalue()),
        "cut member": gzip.compress(good.getvalue()[:5000]),
    }


@pytest.mark.parametrize("name", broken_archives())
def test_a_broken_archive_is_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "cifar-10-python.tar.gz"
    path.write_bytes(broken_archives()[name])
    with pytest.raises(DataError, match="expected") as caught:
        load(TINY, tmp_path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_flipped_bit_in_a_tar_header_gives_the_data_or_a_data_error(tmp_path: Path) -> None:
    raw = gzip.decompress(pack(tmp_path / "cifar-10-python.tar.gz", members(batches())).read_bytes())
    choose = random.Random(1)
    for _ in range(150):
        flipped = bytearray(raw)
        flipped[choose.randrange(512)] ^= 1 << choose.randrange(8)
        (tmp_path / "cifar-10-python.tar.gz").write_bytes(gzip.compress(flipped, 1))
        try:
            assert_is_tiny(load(TINY, tmp_path))
        except DataError as error:
            assert "cifar-10-python.tar.gz" in str(error)
