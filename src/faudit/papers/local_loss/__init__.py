"""Training Neural Networks with Local Error Signals (arXiv 1901.06656).

A loss for every layer, on MNIST.
"""

from __future__ import annotations

from faudit.papers.local_loss.claims import CLAIMS
from faudit.papers.paper import ITSELF, Paper, study_recipe

PAPER = Paper(
    name="local-loss",
    title="Training Neural Networks with Local Error Signals",
    reference="arXiv 1901.06656",
    source=ITSELF,
    core_hours=2.0,
    recipe=study_recipe("local-loss"),
    claims=CLAIMS,
    notes="The paper shifts the images by up to 2 pixels at random.",
)
