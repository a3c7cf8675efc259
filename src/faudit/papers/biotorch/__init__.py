"""Benchmarking the Accuracy and Robustness of Feedback Alignment Algorithms (arXiv 2108.13446).

BP, FA and sign symmetry with LeNet on MNIST.
"""

from __future__ import annotations

from faudit.papers.biotorch.claims import CLAIMS
from faudit.papers.paper import ITSELF, Paper, study_recipe

PAPER = Paper(
    name="biotorch",
    title="Benchmarking the Accuracy and Robustness of Feedback Alignment Algorithms",
    reference="arXiv 2108.13446",
    source=ITSELF,
    core_hours=0.7,
    recipe=study_recipe("biotorch"),
    claims=CLAIMS,
    notes=(
        "The paper trains for 100 epochs, our runs for 10. Its settings for MNIST are not public. Weight decay, the "
        "falling rate, FA's rate 1e-3, and the start of weights and feedback (Xavier, uniform) are those of BioTorch's "
        "LeNet configurations for CIFAR-10. These have the rate .1 for BP and sign symmetry, with batches of 128. With "
        "our batches of 64 both collapse at .1. After two epochs of seed 7, which is not used here, both did better at "
        ".01 than at .05, so .01 is their rate. The rates were tried with torch's own start of the weights, "
        "and the logs of these trials were not kept."
    ),
)
