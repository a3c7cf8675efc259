"""Where the datasets come from, where their files may lie, and whether those are the official ones.

Nothing here imports torch until ``check`` loads a dataset, so that the command line starts at once.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from faudit.data import DATASETS
from faudit.errors import ConfigError, DataError
from faudit.registry import unknown

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from torch import Tensor

Progress = Callable[[str, int, int | None], None]  # file name, bytes done, bytes in all where the server says so

TORONTO = "https://www.cs.toronto.edu/~kriz/"
CHUNK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte
MAX_DOWNLOAD = 1 << 30  # no dataset here is a fifth of it; a server that never ends must not fill the disk


@dataclass(frozen=True)
class File:
    """One official file; ``unpacked`` is what it is called after unpacking it by hand: a file, or a tar's folder."""

    url: str
    md5: str
    unpacked: str

    @property
    def name(self) -> str:
        """The file's own name, the last part of its address."""
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class Source:
    """The files of one dataset and the folders under the data folder that may hold them; fetch fills the first."""

    files: tuple[File, ...]
    folders: tuple[str, ...]


def idx_source(base: str, md5: str, *, folders: tuple[str, ...]) -> Source:
    """An MNIST-like dataset: training images, training labels, test images, test labels, and their checksums."""
    stems = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    pairs = zip(stems, md5.split(), strict=True)
    return Source(tuple(File(f"{base}{stem}-ubyte.gz", digest, f"{stem}-ubyte") for stem, digest in pairs), folders)


# MNIST and Fashion-MNIST use the same four names: a folder of their own goes before files that lie loose.
SOURCES: dict[str, Source] = {
    "cifar10": Source(
        (File(f"{TORONTO}cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", "cifar-10-batches-py"),), ("",)
    ),
    "cifar100": Source(
        (File(f"{TORONTO}cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", "cifar-100-python"),), ("",)
    ),
    "mnist": idx_source(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873 d53e105ee54ea40749a09fcbcd1e9432 "
        "9fb629c4189551a2d022fa330f9573f3 ec29112dd5afa0611ce80d1b7f02629c",
        folders=("mnist", "MNIST/raw", ""),
    ),
    "fashion-mnist": idx_source(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d 25c81989df183df01b3e8a0aad5dffbe "
        "bef4ecab320f06d8554ea6380940ec79 bb300cfdad3c16e7a12a480ee83cd310",
        folders=("fashion-mnist", "FashionMNIST/raw", ""),
    ),
}


def locate(name: str, data_dir: Path | None) -> list[Path]:
    """The files of a dataset in the order of its source, all from one folder, each unpacked (faster to read) or not."""
    command = f"`faudit data fetch {name} --data-dir {data_dir or 'DIR'}`"
    if data_dir is None:
        raise DataError(
            f"{name} does not ship with faudit: expected its files in --data-dir DIR; get them with {command}."
        )
    source = SOURCES[name]
    if len(source.files) == 1 and (os.path.isfile(data_dir) or is_unpacked(data_dir, source.files[0])):
        return [data_dir]
    looked: list[str] = []
    for folder in (data_dir / part for part in source.folders):
        found = {file.name: path for file in source.files if (path := look(folder, file)) is not None}
        if len(found) == len(source.files):
            return list(found.values())
        lacking = [file.name for file in source.files if file.name not in found]
        looked.append(f"{folder}, which lacks {' and '.join(lacking)}" if found else str(folder))
    names = ", ".join(f"{file.name} (or {file.unpacked})" for file in source.files)
    raise DataError(f"{name} was not found: expected {names} (looked in {'; '.join(looked)}). Get them with {command}.")


def is_unpacked(path: Path, file: File) -> bool:
    """Whether the path has the name that unpacking gives, be it written "." or behind a link."""
    names = os.path.basename(os.path.abspath(path)), os.path.basename(os.path.realpath(path))
    return file.unpacked in names and os.path.exists(path)


def look(folder: Path, file: File) -> Path | None:
    """Where in this folder the file lies, if it does."""
    present = os.path.isdir if file.name.endswith(".tar.gz") else os.path.isfile
    if present(folder / file.unpacked):
        return folder / file.unpacked
    return folder / file.name if os.path.isfile(folder / file.name) else None


def fetch(name: str, data_dir: Path, *, url: str | None = None, progress: Progress) -> list[Path]:
    """Download the official files of a dataset; the paths of all of them, none for a dataset that ships with faudit.

    ``url`` is another address for them: of the folder that holds them, or of the file where there is but one (a
    folder's ends in "/"). Whatever the address, the official checksum decides; only then does a file get its name.
    """
    if name not in DATASETS:
        raise ConfigError(unknown("dataset", name, DATASETS))
    if name not in SOURCES:
        return []
    source = SOURCES[name]
    folder = data_dir / source.folders[0]
    single = len(source.files) == 1
    return [fetch_file(file, folder, url=address(file, url, single=single), progress=progress) for file in source.files]


def address(file: File, url: str | None, *, single: bool) -> str:
    """The http address of a file; ``single`` says that the dataset has no other."""
    if url is None:
        return file.url
    if not re.fullmatch("https?://[!-~]+", url):
        raise DataError(f"not an address to fetch from: expected http://… or https://…, got {url!r}. Correct --url.")
    return url if single and not url.endswith("/") else f"{url.rstrip('/')}/{file.name}"


def fetch_file(file: File, folder: Path, *, url: str, progress: Progress) -> Path:
    """One file at its place with the right checksum; downloaded only if it is not there, never replaced if it is."""
    target = folder / file.name
    with disk_errors(target):
        folder.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(target):
            if (found := md5_of(target)) == file.md5:
                return target
            raise DataError(
                f"{file.name} is already there with other content: expected md5 {file.md5}, got {found} ({target}). "
                "Move it away to fetch the official file, or keep it and train on it as it is."
            )
        part = target.with_name(f"{file.name}.{os.getpid()}.part")  # two fetches at once do not share it
        try:
            download(url, part, file=file, progress=progress)
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
    return target


def download(url: str, part: Path, *, file: File, progress: Progress) -> None:
    """The bytes behind an address, on disk, of the promised length and the official checksum; or a DataError."""
    digest = hashlib.md5(usedforsecurity=False)
    done = 0
    with connect(url) as response, open(part, "wb") as out:
        total = response.length
        for chunk in chunks(response, url, total=total):
            out.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(file.name, done, total)
        if digest.hexdigest() != file.md5:
            raise failed(url, expected=f"md5 {file.md5}", got=f"{digest.hexdigest()} over {done} bytes")
        out.flush()
        os.fsync(out.fileno())


def connect(url: str) -> HTTPResponse:
    """An open answer with status 200, by http or https alone: a redirect to anything else is refused."""
    import urllib.error
    import urllib.request as web
    from http.client import HTTPException

    opener = web.OpenerDirector()  # build_opener would add file:, ftp: and data:
    for handler in (web.ProxyHandler(), web.HTTPHandler(), web.HTTPSHandler(), web.UnknownHandler()):
        opener.add_handler(handler)
    for answer in (web.HTTPRedirectHandler(), web.HTTPDefaultErrorHandler(), web.HTTPErrorProcessor()):
        opener.add_handler(answer)
    try:
        response: HTTPResponse = opener.open(web.Request(url, headers={"User-Agent": "faudit"}), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        raise failed(url, expected="HTTP 200", got=f"{error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:  # ValueError: an address, here or redirected to, of no sense
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        raise failed(url, expected="an answer", got=one_line(cause)) from error
    return response


def failed(url: str, *, expected: str, got: str) -> DataError:
    """The error of a download, whatever went wrong with it."""
    return DataError(
        f"cannot fetch: expected {expected}, got {got} ({url}). Nothing of it was kept: check the connection and try "
        "again, or give another address with --url."
    )


def chunks(response: HTTPResponse, url: str, *, total: int | None) -> Iterator[bytes]:
    """What the server sends, until its promised length is there."""
    from http.client import HTTPException

    done = 0
    expected = "all of the file" if total is None else f"{total} bytes"
    while done <= MAX_DOWNLOAD:
        try:
            chunk = response.read(CHUNK)
        except (OSError, HTTPException) as error:
            raise failed(url, expected=expected, got=f"{done} bytes, then {one_line(error)}") from error
        if not chunk:
            if total is not None and done != total:
                raise failed(url, expected=expected, got=f"{done} bytes, then a closed connection")
            return
        done += len(chunk)
        yield chunk
    raise failed(url, expected=f"at most {MAX_DOWNLOAD} bytes", got="more")


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """What the disk refuses while a file is read or written, as one line."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "Make room there" if full else "Check the folder and its permissions"
        raise DataError(
            f"the disk refuses {path.name}: expected to read and write it, got {one_line(error)} ({path.parent}). "
            f"{what}, or give another --data-dir."
        ) from error


def one_line(error: object) -> str:
    """What an exception says, without its line breaks; its kind where it says nothing."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return " ".join(text.split()) or type(error).__name__


def md5_of(path: Path) -> str:
    """The checksum the datasets are published with."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def check(name: str, data_dir: Path | None) -> list[str]:
    """Load a dataset whole and say what it holds and whether its files are the official ones."""
    data = DATASETS[name](data_dir)
    return [
        f"{name}: {len(data.train_y):,} training and {len(data.test_y):,} test samples "
        f"of shape {list(data.sample_shape)} in {data.classes} classes",
        f"samples per class: {balance(data.train_y, data.classes)} for training, "
        f"{balance(data.test_y, data.classes)} for test",
        f"fingerprint: sha256 {data.fingerprint()}",
        *origin(name, data_dir),
    ]


def balance(labels: Tensor, classes: int) -> str:
    """How many samples each class has: one number, or the least and the most."""
    counts = labels.bincount(minlength=classes)
    least, most = int(counts.min()), int(counts.max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def origin(name: str, data_dir: Path | None) -> list[str]:
    """Whether the files just read are the official ones, as far as a checksum can tell."""
    if name not in SOURCES:
        return ["files: ship with faudit"]
    lines = []
    for file, path in zip(SOURCES[name].files, locate(name, data_dir), strict=True):
        if is_unpacked(path, file):
            lines.append(f"files: {path} is unpacked: it has no archive checksum to compare with the official one")
            continue
        with disk_errors(path):
            found = md5_of(path)
        if found != file.md5:
            lines.append(
                "warning: differs from the official files: results are comparable only with runs on the same copy "
                f"({path}: expected md5 {file.md5}, got {found})"
            )
    return lines or ["files: match the official checksums"]
