"""Learning Without Feedback: Direct Random Target Projection (arXiv 1909.01311).

Labels teach the hidden layers, on MNIST and CIFAR-10.
"""

from __future__ import annotations

from faudit.papers.drtp.claims import CLAIMS
from faudit.papers.paper import ITSELF, Paper, study_recipe

PAPER = Paper(
    name="drtp",
    title="Learning Without Feedback: Direct Random Target Projection",
    reference="arXiv 1909.01311",
    source=ITSELF,
    core_hours=0.2,
    recipe=study_recipe("drtp"),
    claims=CLAIMS,
)
