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
    source="a report on a reproduction",
    core_hours=0.3,
    recipe=study_recipe("lillicrap"),
    claims=CLAIMS,
    notes=(
        "The angle is between W and B of the output layer. NSE: squared error on the test set, relative to the "
        "best constant. The linear runs are online, ten passes over 300 samples. The tanh runs take batches of 30 "
        "with 30 times the rate: 50 passes over 30,000 samples, 1.5e6 in all. Of the tanh runs only the sizes and "
        "the number of samples are known. Their rate and initial weights are those of the linear runs. About ten "
        "settings were tried in a prototype first, and this one came closest to the published numbers. The order "
        "depends on it: with ten times the rate, online, BP with four layers stops at an NSE of .03, above FA. The "
        "first claim has a wider interval than ± 5°, because the angle of random matrices is 90° and not 85°."
    ),
)
