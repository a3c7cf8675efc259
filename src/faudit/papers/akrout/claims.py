"""The claims: the trace of accuracy and weight angle in the authors' logs, and the dip of FA's angle.

Their epoch 0 is after the first pass, which is epoch 1 of our rows.
"""

from __future__ import annotations

from faudit.figures.figure import at
from faudit.papers.claim import Between, Claim, Part, at_epoch, dip, full_accuracy

ANGLE = at("weight_angle", -1)  # of the output layer's weight, the only one that an error is sent through
# Their epoch → accuracy in percent.
ACCURACIES = {
    "BP": {0: 88.00, 4: 91.84, 9: 94.12, 19: 96.23, 49: 97.70, 99: 98.25},
    "FA": {0: 85.49, 4: 89.88, 9: 90.86, 19: 92.25, 49: 94.62, 99: 96.34},
    "KP": {0: 88.90, 4: 93.46, 9: 95.41, 19: 97.00, 49: 97.95, 99: 98.28},
    "WM": {0: 78.48, 4: 88.48, 9: 90.49, 19: 92.62, 49: 96.51, 99: 97.97},
}
# Their epoch → angle in degrees.
ANGLES = {
    "FA": {0: 40.0, 4: 30.5, 9: 29.3, 19: 31.2, 49: 38.3, 99: 41.4},
    "KP": {0: 19.7, 4: 13.9, 9: 11.2, 19: 8.7, 49: 6.2, 99: 4.9},
    "WM": {0: 61.3, 4: 38.0, 9: 27.5, 19: 18.7, 49: 13.1, 99: 9.3},
}
WITHIN = {"FA": 2.0, "KP": 2.0, "WM": 4.0}  # degrees


def accuracy(rule: str) -> Claim:
    trace = ACCURACIES[rule]
    parts = [
        Part(f"epoch {epoch}", (rule,), at_epoch(epoch + 1, full_accuracy), "accuracy", percent / 100, within=0.005)
        for epoch, percent in trace.items()
    ]
    epochs, percents = ", ".join(map(str, trace)), ", ".join(f"{percent:.2f}" for percent in trace.values())
    return Claim(f"{rule} accuracy at epochs {epochs}", f"{percents} %", tuple(parts))


def angle(rule: str) -> Claim:
    trace = ANGLES[rule]
    parts = [
        Part(f"epoch {epoch}", (rule,), at_epoch(epoch + 1, ANGLE), "angle", degrees, within=WITHIN[rule])
        for epoch, degrees in trace.items()
    ]
    epochs, angles = ", ".join(map(str, trace)), ", ".join(f"{degrees:.1f}" for degrees in trace.values())
    return Claim(f"{rule} weight angle at epochs {epochs}", f"{angles}°", tuple(parts))


CLAIMS: tuple[Claim, ...] = (
    *map(accuracy, ACCURACIES),
    *map(angle, ANGLES),
    Claim(
        "FA's weight angle is smallest at epochs 7–12 (8–13 of our rows)",
        "epoch 7–12",
        (Between("smallest", "FA", dip(ANGLE), "epoch", 8, 13),),
    ),
)
