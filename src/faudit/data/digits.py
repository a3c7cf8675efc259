"""The digits that ship with faudit: 1,797 handwritten digits, 8×8 pixels of 0..16, 10 classes.

E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998,
doi 10.24432/C50P49, licensed CC BY 4.0. These are the samples that scikit-learn bundles, in another order.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from torch import Tensor

from faudit.data.dataset import Dataset
from faudit.data.idx import read_idx

# The shipped files are shuffled by class: the first 1,437 samples are for training, the last 360 for test.
TRAIN = 1437


def digits(data_dir: Path | None = None) -> Dataset:
    """The shipped digits: 1,437 for training and 360 for test, 8×8, 10 classes; ``data_dir`` is not used."""
    images = read_shipped("digits-images-idx3-ubyte.gz", shape=(8, 8)).unsqueeze(1)  # [N, 1, 8, 8]
    labels = read_shipped("digits-labels-idx1-ubyte.gz", shape=()).long()
    return Dataset(
        "digits",
        images[:TRAIN],
        labels[:TRAIN],
        images[TRAIN:],
        labels[TRAIN:],
        classes=10,
        mean=(0.3048,),
        std=(0.3759,),
        scale=16.0,
    )


def read_shipped(name: str, *, shape: tuple[int, ...]) -> Tensor:
    """The array of an IDX file inside the package."""
    with resources.files("faudit.data").joinpath(name).open("rb") as stream:
        return read_idx(stream, name, shape=shape)
