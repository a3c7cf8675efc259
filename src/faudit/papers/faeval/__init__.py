"""What Accuracy and Gradient Cosine Miss (arXiv 2606.21126): BP, FA and DFA in residual networks.

faudit has the networks, rules, measurements, figures, claims and result files of this paper.
"""

from __future__ import annotations

from faudit.papers.faeval.claims import CLAIMS
from faudit.papers.faeval.export import export
from faudit.papers.faeval.import_ import import_files
from faudit.papers.faeval.recipe import recipe
from faudit.papers.paper import ITSELF, Files, Paper

PAPER = Paper(
    name="faeval",
    title="What Accuracy and Gradient Cosine Miss",
    reference="arXiv 2606.21126",
    source=ITSELF,
    core_hours=115.0,
    recipe=recipe,
    claims=CLAIMS,
    figures=("snapshot-resmlp", "snapshot-vit", "crossarch", "penalty-sweep", "penalty-rescue"),
    notes="Gradient norms are in the paper's unit, ρ is by the paper's definition.",
    files=Files(export, import_files),
)
