"""Assessing the Scalability of Biologically-Motivated Deep Learning Algorithms and Architectures (arXiv 1807.04587).

BP, FA and DFA on MNIST.
"""

from __future__ import annotations

from faudit.papers.bartunov.claims import CLAIMS
from faudit.papers.paper import ITSELF, Paper, study_recipe

PAPER = Paper(
    name="bartunov",
    title="Assessing the Scalability of Biologically-Motivated Deep Learning Algorithms and Architectures",
    reference="arXiv 1807.04587",
    source=ITSELF,
    core_hours=0.7,
    recipe=study_recipe("bartunov"),
    claims=CLAIMS,
    notes=(
        "The paper trains for 500 epochs, our runs for 60. These settings are ours: batches of 64, standardised "
        "pixels, and B ~ N(0, 1)/√10 for DFA. They were chosen before any result."
    ),
)
