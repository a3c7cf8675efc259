"""Loads a dataset, says what it holds, and compares its files with the official ones."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from faudit.data import DATASETS
from faudit.data.dataset import Dataset
from faudit.data.idx import unzipped
from faudit.data.sources import SOURCES, File, disk_errors, is_unpacked, locate, md5_of


def check(name: str, data_dir: Path | None) -> list[str]:
    """Load a whole dataset and describe it in lines of text; the last lines say whether its files are official."""
    data = DATASETS[name](data_dir)
    return [
        *contents(data),
        f"fingerprint: sha256 {data.fingerprint()}",
        *origin(name, data_dir),
    ]


def contents(data: Dataset) -> list[str]:
    """What a dataset holds."""
    sizes = f"{data.name}: {len(data.train_y):,} training and {len(data.test_y):,} test samples"
    samples = f"{sizes} of shape {list(data.sample_shape)}"
    if not data.classes:
        return [f"{samples} with {data.outputs} numbers as targets"]
    train, test = (balance(labels, data.classes) for labels in (data.train_y, data.test_y))
    return [f"{samples} in {data.classes} classes", f"samples per class: {train} for training, {test} for test"]


def balance(labels: Tensor, classes: int) -> str:
    """How many samples each class has: one number, or the smallest and the largest."""
    counts = labels.bincount(minlength=classes)
    least, most = int(counts.min()), int(counts.max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def origin(name: str, data_dir: Path | None) -> list[str]:
    """Compare the files of a dataset with the official checksums."""
    if DATASETS.is_own(name):
        return ["files: an own dataset has no official checksums"]
    if name not in SOURCES:
        return ["files: ship with faudit"]
    pairs = zip(SOURCES[name].files, locate(name, data_dir), strict=True)
    remarks = [compare(file, path) for file, path in pairs]
    return [remark for remark in remarks if remark is not None] or ["files: match the official checksums"]


def compare(file: File, path: Path) -> str | None:
    """What to say about one file, or None for the official file, packed or unpacked."""
    unpacked = is_unpacked(path, file)
    if unpacked and file.content_md5 is None:
        return f"files: {path} is unpacked: it has no archive checksum to compare with the official one"
    expected = file.content_md5 if unpacked else file.md5
    with disk_errors(path), open(path, "rb") as stream:
        found = md5_of(stream)
        if found == expected:
            return None
        stream.seek(0)
        # A file that was compressed again has another checksum, so its content decides, where that is known.
        if file.content_md5 is not None and md5_of(unzipped(stream)) == file.content_md5:
            return (
                f"files: {path} is not packed like the official archive, but its content matches the official checksum"
            )
    where = f"({path}: expected md5 {expected}, got {found})"
    comparable = "results are comparable only with runs on the same copy"
    if file.content_md5 is None:
        return (
            f"warning: differs from the official archive; the content may still be official, but only the checksum of "
            f"the archive is known: {comparable} {where}"
        )
    return f"warning: differs from the official files: {comparable} {where}"
