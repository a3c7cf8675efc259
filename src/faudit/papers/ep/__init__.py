"""Equilibrium Propagation: Bridging the Gap Between Energy-Based Models and Backpropagation (arXiv 1602.05179).

A layered network on MNIST.
"""

from __future__ import annotations

from faudit.papers.ep.claims import CLAIMS
from faudit.papers.paper import Paper, study_recipe

PAPER = Paper(
    name="ep",
    title="Equilibrium Propagation: Bridging the Gap Between Energy-Based Models and Backpropagation",
    reference="arXiv 1602.05179",
    source="the log in the repository of Schug and Sacramento, one seed",
    core_hours=0.3,
    recipe=study_recipe("ep"),
    claims=CLAIMS,
    notes="Pixels are standardised, as in that repository.",
)
