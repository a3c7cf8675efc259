"""The claims: four accuracies, and that the paper's BP on CIFAR-10 is behind DRTP only because of its learning rate."""

from __future__ import annotations

from faudit.papers.claim import Claim, Order, Part, full_accuracy, last

ACCURACY = last(full_accuracy)


def accuracy(experiment: str, published: float) -> Part:
    return Part(experiment, (experiment,), ACCURACY, "accuracy", published, within=0.01)


CLAIMS: tuple[Claim, ...] = (
    Claim("MNIST accuracy, BP", ".97", (accuracy("MNIST BP", 0.97),)),
    Claim("MNIST accuracy, DRTP", ".93", (accuracy("MNIST DRTP", 0.93),)),
    Claim("CIFAR-10 accuracy, BP", ".42", (accuracy("CIFAR-10 BP", 0.42),)),
    Claim("CIFAR-10 accuracy, DRTP", ".43", (accuracy("CIFAR-10 DRTP", 0.43),)),
    Claim(
        "ours: on CIFAR-10, BP with ten times its rate is ahead of DRTP",
        "BP .42 < DRTP .43",
        (Order("DRTP < BP", ("CIFAR-10 DRTP", "CIFAR-10 BP, 10× rate"), ACCURACY, "accuracy"),),
    ),
)
