"""The Forward-Forward Algorithm: Some Preliminary Investigations (arXiv 2212.13345).

Layers that tell right labels from wrong ones, on MNIST.
"""

from __future__ import annotations

from faudit.papers.forward_forward.claims import CLAIMS
from faudit.papers.paper import Paper, study_recipe

PAPER = Paper(
    name="forward-forward",
    title="The Forward-Forward Algorithm: Some Preliminary Investigations",
    reference="arXiv 2212.13345",
    source="1.36 in the paper, 1.45 in the repository of a reproduction (Löwe)",
    core_hours=1.5,
    recipe=study_recipe("forward-forward"),
    claims=CLAIMS,
)
