"""Error-driven Input Modulation: Solving the Credit Assignment Problem without a Backward Pass (arXiv 2201.11665).

PEPITA, learning from two forward passes, on CIFAR-10.
"""

from __future__ import annotations

from faudit.papers.paper import Paper, study_recipe
from faudit.papers.pepita.claims import CLAIMS

PAPER = Paper(
    name="pepita",
    title="Error-driven Input Modulation: Solving the Credit Assignment Problem without a Backward Pass",
    reference="arXiv 2201.11665",
    source="the log in the authors' notebook, one seed",
    core_hours=1.0,
    recipe=study_recipe("pepita"),
    claims=CLAIMS,
)
