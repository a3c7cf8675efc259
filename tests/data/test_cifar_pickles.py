"""CIFAR's pickles: nothing in them can run, fill the memory, hang or crash, and good files are read as pickle reads."""

from __future__ import annotations

import os
import pickle
import random
import signal
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from faudit.data import cifar, pickles
from faudit.data.cifar import load
from faudit.data.pickles import Reader, Rows
from faudit.errors import DataError
from tests.support.cifar_files import (
    TINY,
    U1,
    Writer,
    array,
    batches,
    dictionary,
    folder,
    images,
    listing,
    modern,
    number,
    python2,
    respelled,
    text,
)


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


MEMO_BOMB = b"\x80\x02Nr\x00\x00\x00\x10."  # memo[2²⁸] = None
NESTED_KEY = b"\x80\x02})" + b"\x85" * 300_000 + b"Ns."
DOUBLED_KEY = b"\x80\x02})q\x00" + b"h\x00\x86q\x00" * 40 + b"Ns."
WIDE_KEY = b"\x80\x02}((((((" + b")q\x00" + (b"h\x00" * 39 + b"tq\x00") * 6 + b"Ns."

CLOSED_UNPICKLER = """
import io, pickle, resource, sys

class Closed(getattr(pickle, sys.argv[1])):
    def find_class(self, module, name):
        raise pickle.UnpicklingError("no name is allowed")

for limit, most in ((resource.RLIMIT_AS, 1 << 30), (resource.RLIMIT_CPU, 1), (resource.RLIMIT_CORE, 0)):
    resource.setrlimit(limit, (most, most))
Closed(io.BytesIO(sys.stdin.buffer.read()), encoding="bytes").load()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limits on memory and time are those of Linux")
@pytest.mark.parametrize(
    ("unpickler", "raw", "end"),
    [
        ("Unpickler", MEMO_BOMB, 1),
        ("Unpickler", NESTED_KEY, -signal.SIGSEGV),
        ("_Unpickler", NESTED_KEY, -signal.SIGSEGV),
        ("Unpickler", DOUBLED_KEY, -signal.SIGKILL),
        ("_Unpickler", DOUBLED_KEY, -signal.SIGKILL),
        ("Unpickler", WIDE_KEY, -signal.SIGKILL),
    ],
    ids=["memo", "nested key", "nested key, in Python", "doubled key", "doubled key, in Python", "wide key"],
)
def test_pythons_unpickler_falls_to_these_files_even_if_it_allows_no_name(unpickler: str, raw: bytes, end: int) -> None:
    """The reason for a reader of our own: were this no longer so, an allow-listed unpickler would do."""
    command = [sys.executable, "-c", CLOSED_UNPICKLER, unpickler]
    done = subprocess.run(command, input=raw, capture_output=True, timeout=60, check=False)
    assert done.returncode == end
    assert (b"MemoryError" in done.stderr) == (raw == MEMO_BOMB)


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
    "memo bomb of 4 GB": (MEMO_BOMB, "expected a dictionary, got NoneType"),
    "memo that is not there": (b"\x80\x02h\x05.", "KeyError"),
    "string longer than the file": (b"\x80\x02T\xff\xff\xff\x7fabc.", "expected 2147483647 bytes, got 4, the end"),
    "string of negative length": (b"\x80\x02T\xff\xff\xff\xffabc.", "expected 4294967295 bytes, got 4, the end"),
    "bytes of eight-byte length": (b"\x80\x02\x96\xff\xff\xff\xff\xff\xff\xff\x7f.", "opcode .* got 0x96"),
    "nested lists": (b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "expected a dictionary, got list"),
    "nested tuples": (b"\x80\x02)" + b"\x85" * 300_000 + b".", "expected a dictionary, got tuple"),
    "nested tuple as a key": (NESTED_KEY, "text as a key, got tuple"),
    "pair of pairs as a key": (DOUBLED_KEY, "text as a key, got tuple"),
    "wide tuple of tuples as a key": (WIDE_KEY, "text as a key, got tuple"),
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
