"""Random Synaptic Feedback Weights Support Error Backpropagation for Deep Learning (Nature Communications 7, 13276).

FA on a linear and a nonlinear teacher.
"""

from __future__ import annotations

from faudit.papers.lillicrap.claims import CLAIMS
from faudit.papers.paper import Paper, study_recipe

PAPER = Paper(
    name="lillicrap",
    title="Random Synaptic Feedback Weights Support Error Backpropagation for Deep Learning",
    reference="Nature Communications 7, 13276",
    source="the report of a reproduction",
    core_hours=0.3,
    recipe=study_recipe("lillicrap"),
    claims=CLAIMS,
)
