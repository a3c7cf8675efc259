"""Downloads the official files of a dataset.

pooch downloads each file to a temporary name and compares the checksum. This module adds a size limit, progress and
errors of one line, and gives the file its own name at the end. It imports pooch only for a download, and never torch.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from http.client import IncompleteRead
from pathlib import Path
from typing import IO, TYPE_CHECKING

from faudit.data import DATASETS
from faudit.data.sources import CHUNK, SOURCES, File, disk_errors, md5_of, one_line
from faudit.errors import ConfigError, DataError
from faudit.registry import unknown

if TYPE_CHECKING:
    from requests import Response

Progress = Callable[[str, int, int | None], None]  # file name, bytes so far, bytes in total if the server says so

TIMEOUT = 30.0  # seconds without a byte
MAX_DOWNLOAD = 1 << 30  # six times the largest dataset: a server that never ends must not fill the disk
HEADERS = {"User-Agent": "faudit", "Accept-Encoding": "identity"}  # a server must not compress the file once more


def fetch(name: str, data_dir: Path, *, url: str | None = None, progress: Progress) -> list[Path]:
    """Download the official files of a dataset and return their paths; no paths for a dataset that needs no files.

    ``url`` replaces the official address. It is the address of the folder with the files. For a dataset of one file it
    can be the address of that file; a folder's address then ends in "/". The official checksum holds for any address.
    """
    if name not in list(DATASETS):  # an own dataset has no official files
        raise ConfigError(unknown("dataset", name, DATASETS))
    if name not in SOURCES:
        return []
    source = SOURCES[name]
    folder = data_dir / source.folders[0]
    single = len(source.files) == 1
    return [fetch_file(file, folder, url=address(file, url, single=single), progress=progress) for file in source.files]


def address(file: File, url: str | None, *, single: bool) -> str:
    """The address to download a file from; ``single`` says that the dataset has no other file."""
    if url is None:
        return file.url
    if not re.fullmatch("https?://[!-~]+", url):
        raise DataError(f"not an address to fetch from: expected http://… or https://…, got {url!r}. Correct --url.")
    return url if single and not url.endswith("/") else f"{url.rstrip('/')}/{file.name}"


def fetch_file(file: File, folder: Path, *, url: str, progress: Progress) -> Path:
    """Download one file unless it is there already. A file with other content is never replaced."""
    target = folder / file.name
    with disk_errors(target):
        if os.path.lexists(target):
            with open(target, "rb") as stream:
                found = md5_of(stream)
            if found == file.md5:
                return target
            raise DataError(
                f"{file.name} is already there with other content: expected md5 {file.md5}, got {found} ({target}). "
                "Move it away to fetch the official file, or keep it and train on it as it is."
            )
        download(url, target, md5=file.md5, progress=progress)
    return target


def download(url: str, target: Path, *, md5: str, progress: Progress) -> None:
    """Download one file to its place. After any error there is no file."""
    import pooch  # type: ignore[import-untyped] # pooch publishes no types

    pooch.get_logger().setLevel("WARNING")  # at INFO it writes to stderr, where the progress goes
    transfer = Transfer(url, target, progress=progress)
    folder = os.path.abspath(target.parent)  # pooch would expand a leading ~
    # Where pooch cannot rename a file, it copies it, which leaves half a file on a full disk. So pooch writes a .part
    # file, and os.replace gives it the official name.
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        pooch.retrieve(url, f"md5:{md5}", fname=part.name, path=folder, downloader=transfer)
        os.replace(part, target)
    except ValueError as error:  # pooch raises it for a wrong checksum
        got = f"{transfer.digest.hexdigest()} over {transfer.done} bytes"
        raise failed(url, expected=f"md5 {md5}", got=got) from error
    finally:
        part.unlink(missing_ok=True)


class Transfer:
    """A downloader for pooch: pooch's own, with a size limit, progress, and files that are on disk when it returns.

    pooch's own downloader has no size limit, and it unpacks what the server labels ``Content-Encoding: gzip``, so that
    the checksum of an archive is wrong. It takes any object with ``write`` and ``flush`` as the output and any option
    of ``requests.get``, so this object is the output, and ``start`` is the hook that requests calls for every answer.
    """

    def __init__(self, url: str, target: Path, *, progress: Progress) -> None:
        self.url = url
        self.target = target
        self.progress = progress
        self.out: IO[bytes]
        self.done = 0
        self.total: int | None = None
        self.digest = hashlib.md5(usedforsecurity=False)  # for the error message; pooch decides
        self.answer: Response | None = None

    def __call__(self, url: str, output_file: str, _pooch: object) -> None:
        """Download to a temporary file that pooch made."""
        import pooch

        http = pooch.HTTPDownloader(chunk_size=CHUNK, timeout=TIMEOUT, headers=HEADERS, hooks={"response": self.start})
        os.remove(output_file)  # made for its owner alone; made again, it gets the permissions of any new file
        with open(output_file, "wb") as self.out:
            try:
                http(url, self, None)
            except (OSError, ValueError) as error:  # requests' errors are OSError; ValueError: an address without sense
                raise self.broken(error) from error
            finally:
                if self.answer is not None:
                    self.answer.close()
            self.out.flush()
            os.fsync(self.out.fileno())

    def start(self, answer: Response, **_: object) -> None:
        """Look at an answer before its content is read."""
        if answer.is_redirect:
            return
        self.answer = answer
        if answer.status_code != 200:
            raise failed(self.url, expected="HTTP 200", got=f"{answer.status_code} {answer.reason}")
        self.total = answer.raw.length_remaining
        answer.raw.headers.pop("Content-Encoding", None)  # keep the bytes as they are

    def write(self, chunk: bytes) -> None:
        """Write the next bytes."""
        with disk_errors(self.target):
            self.out.write(chunk)
        self.digest.update(chunk)
        self.done += len(chunk)
        if self.done > MAX_DOWNLOAD:
            raise failed(self.url, expected=f"at most {MAX_DOWNLOAD} bytes", got="more")
        self.progress(self.target.name, self.done, self.total)

    def flush(self) -> None:
        """Do nothing: pooch calls this after every chunk, and one flush at the end is enough."""

    def broken(self, error: BaseException) -> DataError:
        """The error of a connection that was not made, or that broke."""
        while isinstance(inner := error.__cause__ or (error.args[-1] if error.args else None), BaseException):
            error = inner  # requests and urllib3 wrap the error of the socket several times
        cause = "a closed connection" if isinstance(error, IncompleteRead) else one_line(error)
        if self.answer is None:
            return failed(self.url, expected="an answer", got=cause)
        expected = "all of the file" if self.total is None else f"{self.total} bytes"
        return failed(self.url, expected=expected, got=f"{self.answer.raw.tell()} bytes, then {cause}")


def failed(url: str, *, expected: str, got: str) -> DataError:
    """The error of a download."""
    return DataError(
        f"cannot fetch: expected {expected}, got {got} ({url}). Nothing of it was kept: check the connection and try "
        "again, or give another address with --url."
    )
