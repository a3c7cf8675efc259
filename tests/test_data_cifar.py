"""CIFAR's pickles: read to the byte, from folder or archive, and nothing in them can run, fill the memory or escape."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import random
import struct
import tarfile
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from faudit.data import cifar, pickles
from faudit.data.cifar import CIFAR10, CIFAR100, cifar10, cifar100, load
from faudit.data.dataset import Dataset
from faudit.data.pickles import Reader, Rows
from faudit.errors import DataError

TINY = replace(CIFAR10, train_rows=10, test_rows=3)
TINY100 = replace(CIFAR100, train_rows=7, test_rows=4)
Rows2D = NDArray[np.uint8]


def images(count: int, seed: int) -> Rows2D:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def text(value: bytes) -> bytes:
    """A Python 2 string in protocol 2."""
    return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value


def number(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    return b"M" + struct.pack("<H", value) if 0 <= value < 65536 else b"J" + struct.pack("<i", value)


def listing(items: list[bytes]) -> bytes:
    return b"]q\x05(" + b"".join(items) + b"e"


U1 = b"cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


def array(rows: Rows2D, *, shape: bytes | None = None, dtype: bytes = U1, order: bytes = b"\x89") -> bytes:
    """An ndarray as Python 2's numpy pickled it, each part open to abuse."""
    shape = shape or number(rows.shape[0]) + number(rows.shape[1]) + b"\x86"
    empty = b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09"
    return empty + b"(K\x01" + shape + dtype + order + text(rows.tobytes()) + b"tb"


def dictionary(entries: dict[bytes, bytes]) -> bytes:
    return b"\x80\x02}q\x01(" + b"".join(text(key) + value for key, value in entries.items()) + b"u."


def python2(rows: Rows2D, labels: list[int], *, key: str = "labels") -> bytes:
    """A file as the official ones are written: protocol 2 with Python 2's opcodes."""
    entries = {
        b"batch_label": text(b"training batch 1 of 5"),
        key.encode(): listing([number(label) for label in labels]),
        b"data": array(rows),
        b"filenames": listing([text(f"leptodactylus_s_{i:06}.png".encode()) + b"q\x0c" for i in range(len(rows))]),
    }
    return dictionary(entries)


def modern(rows: Rows2D, labels: list[int], *, key: str = "labels") -> bytes:
    """The same by today's pickle: numpy._core, and bytes by way of _codecs.encode."""
    raw = pickle.dumps({b"data": rows, key.encode(): labels, b"filenames": [b"a.png"] * len(rows)}, protocol=2)
    return raw.replace(b"numpy.core.", b"numpy._core.")  # where numpy 1 writes the test


def respelled(rows: Rows2D, labels: list[int], *, key: str = "labels") -> bytes:
    """The same under numpy's older name, with text as keys."""
    return pickle.dumps({"data": rows, key: labels}, protocol=2).replace(b"numpy._core.", b"numpy.core.")


Writer = Callable[..., bytes]


def batches(write: Writer = python2, counts: tuple[int, ...] = (2, 2, 2, 2, 2)) -> dict[str, bytes]:
    """The six files of TINY."""
    files = {
        f"data_batch_{i}": write(images(count, i), [(i + row) % 10 for row in range(count)])
        for i, count in enumerate(counts, start=1)
    }
    return {**files, "test_batch": write(images(3, 0), [9, 0, 5])}


def folder(root: Path, files: dict[str, bytes], name: str = CIFAR10.folder) -> Path:
    (root / name).mkdir()
    for file, content in files.items():
        (root / name / file).write_bytes(content)
    return root


def assert_is_tiny(data: Dataset, counts: tuple[int, ...] = (2, 2, 2, 2, 2)) -> None:
    expected = np.concatenate([images(count, i) for i, count in enumerate(counts, start=1)])
    assert np.array_equal(data.train_x.numpy().reshape(10, 3072), expected)
    assert data.train_y.tolist() == [(i + row) % 10 for i, count in enumerate(counts, start=1) for row in range(count)]
    assert np.array_equal(data.test_x.numpy().reshape(3, 3072), images(3, 0))
    assert data.test_y.tolist() == [9, 0, 5]


@pytest.mark.parametrize("write", [python2, modern, respelled])
def test_every_spelling_of_the_files_is_read_to_the_byte(tmp_path: Path, write: Writer) -> None:
    data = load(TINY, folder(tmp_path, batches(write)))
    assert_is_tiny(data)
    assert data.train_x.shape == (10, 3, 32, 32)
    assert (data.name, data.classes, data.crop, data.flip, data.scale) == ("cifar10", 10, 4, True, 255.0)


@pytest.mark.parametrize("write", [python2, modern, respelled])
def test_reader_agrees_with_pickle_on_files_we_trust(write: Writer) -> None:
    raw = write(images(3, 1), [1, 2, 300])
    content = pickle.loads(raw, encoding="bytes")  # noqa: S301 - written two lines above
    trusted = {key if isinstance(key, str) else key.decode(): value for key, value in content.items()}
    ours = Reader(raw, "here").load()
    assert ours.keys() == trusted.keys()
    rows = ours.pop("data")
    assert isinstance(rows, Rows)
    assert rows.pixels is not None
    assert np.array_equal(rows.pixels, trusted.pop("data"))
    assert ours == trusted


def test_reader_agrees_with_pickle_on_every_plain_value() -> None:
    names = [f"name {i}" for i in range(300)]  # more than the short memo opcodes can count
    values = {
        "numbers": [0, 255, 256, 65535, 65536, -1, 2**31 - 1, -(2**31), 2**40, -(2**40), True, False, None],
        "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "names": [*names, names[0], names[-1]],
        "one": [1],
        "nested": {"key": {}, "none": []},
    }
    for value in (values, {"a single key": 1}):
        assert Reader(pickle.dumps(value, protocol=2), "here").load() == value


def test_arrays_written_by_column_are_read_by_column() -> None:
    rows = np.asfortranarray(images(3, 1))
    pixels, _ = cifar.read_batch(modern(rows, [0, 1, 2]), "here", layout=TINY)
    assert np.array_equal(pixels, rows)


def test_channels_come_red_green_blue_and_rows_from_the_top(tmp_path: Path) -> None:
    files = batches()
    rows = images(2, 1)
    rows[0, 1024 + 32 * 3 + 5] = 77  # green, fourth row, sixth column
    files["data_batch_1"] = python2(rows, [1, 2])
    assert int(load(TINY, folder(tmp_path, files)).train_x[0, 1, 3, 5]) == 77


def test_files_may_hold_any_number_of_rows_as_long_as_the_total_is_right(tmp_path: Path) -> None:
    counts = (1, 4, 2, 1, 2)
    assert_is_tiny(load(TINY, folder(tmp_path, batches(counts=counts))), counts)


def test_one_file_at_a_time_is_in_memory(tmp_path: Path) -> None:
    files = {f"data_batch_{i}": python2(images(400, i), [0] * 400) for i in range(1, 6)}
    folder(tmp_path, {**files, "test_batch": python2(images(3, 0), [0] * 3)})
    tracemalloc.start()
    try:
        load(replace(TINY, train_rows=2000), tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * len(files["data_batch_1"])
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("counts", [(2, 2, 2, 2, 1), (2, 2, 2, 2, 3)])
def test_another_total_is_refused(tmp_path: Path, counts: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=f"expected 10, got {sum(counts)}"):
        load(TINY, folder(tmp_path, batches(counts=counts)))


def test_cifar10_and_cifar100_insist_on_the_official_counts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="data_batch_5: expected 50000, got 10"):
        cifar10(folder(tmp_path, batches()))
    train, test = python2(images(7, 1), [99] * 7, key="fine_labels"), python2(images(4, 2), [0] * 4, key="fine_labels")
    folder(tmp_path, {"train": train, "test": test}, "cifar-100-python")
    with pytest.raises(DataError, match="train: expected 50000, got 7"):
        cifar100(tmp_path)


def test_cifar100_takes_the_fine_labels(tmp_path: Path) -> None:
    def write(count: int, seed: int) -> bytes:
        fine, coarse = [number(99 - i) for i in range(count)], [number(i) for i in range(count)]
        entries = {
            b"fine_labels": listing(fine),
            b"coarse_labels": listing(coarse),
            b"data": array(images(count, seed)),
        }
        return dictionary(entries)

    data = load(TINY100, folder(tmp_path, {"train": write(7, 1), "test": write(4, 2)}, "cifar-100-python"))
    assert data.train_y.tolist() == [99, 98, 97, 96, 95, 94, 93]
    assert np.array_equal(data.test_x.numpy().reshape(4, 3072), images(4, 2))
    assert (data.classes, data.mean) == (100, (0.5071, 0.4865, 0.4409))


def pack(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def members(files: dict[str, bytes], prefix: str = "cifar-10-batches-py/") -> list[tuple[tarfile.TarInfo, bytes]]:
    return [(tarfile.TarInfo(prefix + name), content) for name, content in files.items()]


@pytest.mark.parametrize("prefix", ["cifar-10-batches-py/", "./cifar-10-batches-py/"])
def test_archive_is_read_in_any_order_and_nothing_is_unpacked(tmp_path: Path, prefix: str) -> None:
    shuffled = [*reversed(members(batches(), prefix)), (tarfile.TarInfo(prefix + "readme.html"), b"hello")]
    archive = pack(tmp_path / "cifar-10-python.tar.gz", shuffled)
    assert_is_tiny(load(TINY, tmp_path))
    assert list(tmp_path.iterdir()) == [archive]


def test_data_dir_may_be_the_folder_or_the_archive_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path, batches())
    assert_is_tiny(load(TINY, tmp_path / "cifar-10-batches-py"))
    monkeypatch.chdir(tmp_path / "cifar-10-batches-py")
    assert_is_tiny(load(TINY, Path()))
    assert_is_tiny(load(TINY, pack(tmp_path / "mine.tgz", members(batches()))))


def test_missing_files_are_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"--data-dir DIR; get them with `faudit data fetch cifar10 --data-dir DIR`"):
        cifar10(None)
    with pytest.raises(DataError, match=r"cifar-100-python\.tar\.gz .*`faudit data fetch cifar100") as caught:
        cifar100(tmp_path)
    assert f"looked in {tmp_path})" in str(caught.value)
    with pytest.raises(DataError, match=r"looked in .*cifar-10-batches-py\)"):
        cifar10(tmp_path / "cifar-10-batches-py")
    files = batches()
    del files["data_batch_4"]
    with pytest.raises(DataError, match=r"cannot read data_batch_4: .*No such file"):
        load(TINY, folder(tmp_path, files))


def link(name: str, kind: bytes, target: str = "/etc/passwd") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


FIRST = "cifar-10-batches-py/data_batch_1"


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


def test_a_file_too_large_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "MAX_FILE", 5000)
    with pytest.raises(DataError, match="at most 5000 bytes"):
        load(TINY, folder(tmp_path, batches()))
    with pytest.raises(DataError, match=f"at most 5000 bytes, .*{FIRST} in "):
        load(TINY, pack(tmp_path / "c.tar.gz", members(batches())))


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


SYSTEM = b"cposix\nsystem\n"
TOUCH = text(b"touch marker")
COMMAND = SYSTEM + TOUCH + b"\x85R"  # the plain attack


def test_the_attack_of_the_next_test_is_a_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(b"\x80\x02" + COMMAND + b".")  # noqa: S301 - it only touches a file in a folder of the test
    assert (tmp_path / "marker").exists()


ROWS = images(2, 1)
LABELS = listing([number(1), number(2)])
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
EMPTY = RECONSTRUCT + b"K\x00\x85U\x01b\x87R"
ENCODE = b"\x80\x02c_codecs\nencode\n"


def with_data(data: bytes, labels: bytes = LABELS) -> bytes:
    return dictionary({b"data": data, b"labels": labels})


def with_shape(shape: bytes) -> bytes:
    return with_data(array(ROWS, shape=shape + b"\x86"))


def with_dtype(code: bytes) -> bytes:
    return with_data(array(ROWS, dtype=U1.replace(b"U\x02u1", text(code))))


HOSTILE: dict[str, tuple[bytes, str]] = {
    "os.system by REDUCE": (with_data(COMMAND), "got the name 'posix.system'"),
    "os.system beside good data": (
        dictionary({b"data": array(ROWS), b"labels": LABELS, b"filenames": COMMAND}),
        "got the name 'posix.system'",
    ),
    "os.system by INST": (b"\x80\x02(" + TOUCH + b"iposix\nsystem\n.", "opcode .* got 0x69"),
    "os.system by OBJ": (b"\x80\x02(" + SYSTEM + TOUCH + b"o.", "got the name 'posix.system'"),
    "OBJ": (b"\x80\x02(cnumpy\nndarray\nK\x05o.", "opcode .* got 0x6f"),
    "NEWOBJ": (b"\x80\x02cnumpy\nndarray\nK\x05\x85\x81.", "opcode .* got 0x81"),
    "getattr": (
        b"\x80\x02c__builtin__\ngetattr\ncnumpy\ndtype\nU\x05__new__\x86R.",
        "got the name '__builtin__.getattr'",
    ),
    "name of a name": (b"\x80\x02cnumpy\nndarray.__init__\n.", "got the name 'numpy.ndarray.__init__'"),
    "name from the stack": (b"\x80\x02U\x05numpyU\x04load\x93.", "opcode .* got 0x93"),
    "endless name": (b"\x80\x02c" + b"a" * 10_000 + b"\n\n", "expected a short name"),
    "object dtype": (with_dtype(b"O8"), "array of u1, got another call"),
    "wide dtype": (with_dtype(b"u8"), "array of u1, got another call"),
    "dtype that is a name": (with_data(array(ROWS, dtype=b"cnumpy\ndtype\n")), "of u1, got another state"),
    "huge shape": (with_shape(b"J\xff\xff\xff\x7fM\x00\x0c"), r"as \[2, 3072\], got \[2147483647, 3072\]"),
    "huge long": (with_shape(b"\x8a\xff" + b"\x7f" * 255 + b"M\x00\x0c"), r"as \[2, 3072\], got"),
    "negative shape": (with_shape(b"J\xfe\xff\xff\xffJ\x00\xf4\xff\xff"), r"got \[-2, -3072\]"),
    "another width": (with_shape(b"K\x04M\x00\x06"), r"as \[2, 3072\], got \[4, 1536\]"),
    "no rows": (with_data(array(ROWS[:0], shape=b"K\x00M\x00\x0c\x86"), b"]"), r"got \[0, 3072\]"),
    "flat shape": (with_data(array(ROWS, shape=b"M\x00\x18\x85")), "got another state"),
    "array made with a size": (b"\x80\x02" + RECONSTRUCT + b"J\xff\xff\xff\x7f\x85U\x01b\x87R.", "got another call"),
    "array of another class": (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\nK\x00\x85U\x01b\x87R.",
        "got another call",
    ),
    "array without state": (with_data(EMPTY), "expected an array as 'data'"),
    "BUILD on the class": (b"\x80\x02cnumpy\nndarray\n}U\x0c__setstate__Nsb.", "got another state"),
    "BUILD on a dictionary": (b"\x80\x02}}U\x01aNsb.", "got another state"),
    "BUILD with a dictionary": (b"\x80\x02" + EMPTY + b"}U\x01aNsb.", "got another state"),
    "another codec": (ENCODE + b"X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.", "got another call"),
    "encode of no text": (ENCODE + b"cnumpy\ndtype\nX\x06\x00\x00\x00latin1\x86R.", "got another call"),
    "encode of wide text": (
        ENCODE + b"X\x03\x00\x00\x00\xe2\x82\xacX\x06\x00\x00\x00latin1\x86R.",
        "UnicodeEncodeError",
    ),
    "call of a number": (b"\x80\x02K\x01)R.", "got another call"),
    "persistent id": (b"\x80\x02U\x01aQ.", "opcode .* got 0x51"),
    "persistent id as text": (b"Pid\n.", "opcode .* got 0x50"),
    "extension": (b"\x80\x02\x82\x01.", "opcode .* got 0x82"),
    "extension of four bytes": (b"\x80\x02\x84\xff\xff\xff\x7f.", "opcode .* got 0x84"),
    "memo bomb": (b"\x80\x02Nr\xff\xff\xff\xff.", "expected a dictionary, got NoneType"),
    "memo that is not there": (b"\x80\x02h\x05.", "KeyError"),
    "string longer than the file": (b"\x80\x02T\xff\xff\xff\x7fabc.", "expected 2147483647 bytes, got 4, the end"),
    "string of negative length": (b"\x80\x02T\xff\xff\xff\xffabc.", "expected 4294967295 bytes, got 4, the end"),
    "bytes of eight-byte length": (b"\x80\x02\x96\xff\xff\xff\xff\xff\xff\xff\x7f.", "opcode .* got 0x96"),
    "nested lists": (b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "expected a dictionary, got list"),
    "nested tuples": (b"\x80\x02)" + b"\x85" * 300_000 + b".", "expected a dictionary, got tuple"),
    "nested tuple as a key": (b"\x80\x02})" + b"\x85" * 300_000 + b"Ns.", "text as a key, got tuple"),
    "array as a key": (b"\x80\x02}" + array(ROWS) + b"Ns.", "text as a key, got Rows"),
    "list that holds itself": (b"\x80\x02]q\x00h\x00a.", "expected a dictionary, got list"),
    "odd pairs": (b"\x80\x02}(U\x01au.", "got dict and 1 items"),
    "append to a number": (b"\x80\x02K\x01K\x01a.", "a list to append to, got int"),
    "items of a list": (b"\x80\x02](U\x01aK\x01u.", "got list and 2 items"),
    "no mark": (b"\x80\x02t.", "IndexError"),
    "nothing to stop with": (b"\x80\x02.", "IndexError"),
    "empty file": (b"", "expected 1 bytes, got 0, the end of the file"),
    "broken text": (b"\x80\x02X\x01\x00\x00\x00\xff.", "UnicodeDecodeError"),
    "another protocol": (pickle.dumps({"data": 1}, protocol=4), "expected pickle protocol 2, .* got 4"),
    "no data": (dictionary({b"labels": LABELS}), "expected an array as 'data', got NoneType"),
    "data that is a list": (with_data(LABELS), "expected an array as 'data', got list"),
    "no labels": (dictionary({b"data": array(ROWS)}), "expected 2 labels, got NoneType"),
    "labels that are text": (with_data(array(ROWS), text(b"ab")), "expected 2 labels, got bytes"),
    "a label too few": (with_data(array(ROWS), listing([number(1)])), "expected 2 labels, got 1"),
    "a label out of range": (with_data(array(ROWS), listing([number(1), number(10)])), r"expected 0\.\.9, got 10"),
    "a negative label": (with_data(array(ROWS), listing([number(1), number(-1)])), r"expected 0\.\.9, got -1"),
    "a label that is true": (with_data(array(ROWS), listing([number(1), b"\x88"])), r"expected 0\.\.9, got bool"),
    "a label that is an array": (with_data(array(ROWS), listing([number(1), array(ROWS)])), "got Rows"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_in_a_hostile_file_runs_and_the_error_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    raw, message = HOSTILE[name]
    monkeypatch.chdir(folder(tmp_path, {**batches(), "data_batch_1": raw}))
    with pytest.raises(DataError, match=message) as caught:
        load(TINY, tmp_path)
    assert os.listdir(tmp_path) == ["cifar-10-batches-py"]
    assert "cifar-10-batches-py/data_batch_1" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_memory_that_runs_out_is_a_data_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(_: Reader) -> None:
        raise MemoryError

    monkeypatch.setitem(pickles.OPCODES, ord("]"), run_out)
    with pytest.raises(DataError, match="MemoryError"):
        Reader(python2(ROWS, [1, 2]), "here").load()


def test_one_text_encoded_again_and_again_does_not_fill_the_memory() -> None:
    long = b"a" * (1 << 20)
    raw = b"\x80\x02X" + struct.pack("<I", len(long)) + long + b"q\x00"
    raw += b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R" * 64
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="another call"):
            Reader(raw, "here").load()
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_file_of_too_many_steps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "MAX_STEPS", 1000)
    with pytest.raises(DataError, match="at most 1000 steps"):
        Reader(b"\x80\x02" + b"]" * 2000, "here").load()


@pytest.mark.parametrize("write", [python2, modern])
def test_a_file_cut_anywhere_is_refused(write: Writer) -> None:
    raw = write(ROWS, [1, 2])
    for end in {*range(30), *np.linspace(30, len(raw) - 1, 50, dtype=int).tolist()}:
        with pytest.raises(DataError):
            cifar.read_batch(raw[:end], "here", layout=TINY)


@pytest.mark.parametrize("write", [python2, modern])
def test_a_flipped_bit_gives_a_batch_or_a_data_error(write: Writer) -> None:
    raw = write(ROWS, [1, 2])
    structure = [at for at in range(len(raw)) if at < 400 or at > len(raw) - 200]
    choose = random.Random(0)
    refused = 0
    for _ in range(1500):
        flipped = bytearray(raw)
        flipped[choose.choice(structure)] ^= 1 << choose.randrange(8)
        try:
            pixels, labels = cifar.read_batch(bytes(flipped), "here", layout=TINY)
        except DataError:
            refused += 1
        else:
            assert pixels.shape == (2, 3072)
            assert pixels.dtype == np.uint8
            assert all(0 <= label < 10 for label in labels)
    assert 200 < refused < 1500


@pytest.mark.skipif("FAUDIT_CIFAR10" not in os.environ, reason="FAUDIT_CIFAR10 names no folder with the real CIFAR-10")
def test_real_cifar10_is_read_whole_and_its_constants_are_right() -> None:
    data = cifar10(Path(os.environ["FAUDIT_CIFAR10"]))
    assert data.train_x.shape == (50_000, 3, 32, 32)
    assert data.train_y.bincount().tolist() == [5000] * 10
    assert data.test_y.bincount().tolist() == [1000] * 10
    for channel in range(3):
        levels = data.train_x[:, channel].flatten().bincount(minlength=256).double()
        grey = torch.arange(256).double() / 255
        mean = float((levels * grey).sum() / levels.sum())
        std = float((levels * (grey - mean) ** 2).sum() / levels.sum()) ** 0.5
        assert mean == pytest.approx(data.mean[channel], abs=1e-3)  # a copy by way of JPEG differs this much
        assert std == pytest.approx(data.std[channel], abs=2e-3)
