"""Trackers: write the rows of runs for another program to show; one file each, with the interface of ``Tracker``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faudit.registry import Registry

if TYPE_CHECKING:
    from faudit.sweep.trackers.tracker import Tracker

TRACKERS: Registry[type[Tracker]] = Registry(
    "tracker",
    {
        "tensorboard": "faudit.sweep.trackers.tensorboard:TensorBoard",
        "wandb": "faudit.sweep.trackers.wandb:WeightsAndBiases",
        "mlflow": "faudit.sweep.trackers.mlflow:MLflow",
    },
)
