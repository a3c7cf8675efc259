"""Figures: one file each. Every figure is a ``figures.figure.Figure`` and is drawn from logs only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faudit.registry import Registry

if TYPE_CHECKING:
    from faudit.figures.figure import Figure

FIGURES: Registry[type[Figure]] = Registry(
    "figure",
    {
        "snapshot-resmlp": "faudit.figures.snapshot_resmlp:SnapshotResMLP",
        "snapshot-vit": "faudit.figures.snapshot_vit:SnapshotViT",
        "crossarch": "faudit.figures.crossarch:CrossArchitecture",
        "penalty-sweep": "faudit.figures.penalty_sweep:PenaltySweep",
        "penalty-rescue": "faudit.figures.penalty_rescue:PenaltyRescue",
        "atlas": "faudit.figures.atlas:Atlas",
    },
)
OF_STUDIES = {"atlas": "atlas"}  # figures that show all runs of a study; every other figure belongs to a paper
