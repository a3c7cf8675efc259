"""Probes: one file each, all with the face of ``probes.probe.Probe``; a row is what they return, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faudit.registry import Registry

if TYPE_CHECKING:
    from faudit.probes.probe import Probe

PROBES: Registry[type[Probe]] = Registry(
    "probe",
    {
        "norms": "faudit.probes.norms:Norms",
        "gradients": "faudit.probes.gradients:Gradients",
        "alignment": "faudit.probes.alignment:Alignment",
        "accuracy": "faudit.probes.accuracy:Accuracy",
        "perturbation": "faudit.probes.perturbation:Perturbation",
        "precision": "faudit.probes.precision:Precision",
        "stability": "faudit.probes.stability:Stability",
        "nudging": "faudit.probes.nudging:Nudging",
        "distribution": "faudit.probes.distribution:Distribution",
        "update": "faudit.probes.update:Update",
        "linear": "faudit.probes.linear:LinearProbe",
        "movement": "faudit.probes.movement:Movement",
        "rank": "faudit.probes.rank:Rank",
        "weights": "faudit.probes.weights:Weights",
    },
)
