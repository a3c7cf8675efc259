"""Random synaptic feedback weights support error backpropagation for deep learning (Nature Communications 7, 13276).

FA learns the outputs of a linear teacher and of a tanh teacher.
"""

from __future__ import annotations

from faudit.papers.lillicrap.claims import CLAIMS
from faudit.papers.paper import Paper, study_recipe

PAPER = Paper(
    name="lillicrap",
    title="Random synaptic feedback weights support error backpropagation for deep learning",
    reference="Nature Communications 7, 13276",
    source="a report on a reproduction, one teacher and one seed",
    core_hours=0.3,
    recipe=study_recipe("lillicrap"),
    claims=CLAIMS,
    notes=(
        "The angle is between W and B of the output layer. NSE: squared error on the test set, relative to the best "
        "constant. The linear runs are online. The others take batches of 30 with 30 times the rate, 1.5e6 samples in "
        "all. Both go through a fixed set of samples several times, where the paper draws new ones."
    ),
)
