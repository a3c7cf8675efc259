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
        "The published numbers are of a public reproduction, one trial each. Its settings are ours: W starts in "
        "U(±.01), B in U(±.5) for the linear task and U(±.2) for the other, rate 1e-3, a tanh teacher without biases. "
        "The angle is between FA's and BP's signals at the hidden layer: arccos Γ, with Γ the mean over the evaluation "
        "buffer. A start of 85° in one trial is near 90°, so the first claim asks for 80 to 100°. The linear runs are "
        "online, ten passes over 300 samples. The tanh runs take batches of 30 with 30 times the rate: 50 passes over "
        "30,000 samples, 1.5e6 in all. NSE is the squared error on the test set, relative to the best constant; the "
        "reproduction takes the mean over samples of ‖e‖²/‖y‖². So the order is compared, and not the numbers."
    ),
)
