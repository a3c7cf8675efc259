"""Train the runs of a figure, draw it, and read the numbers behind it.

``faudit reproduce snapshot-resmlp --data digits --epochs 2 --seeds 42`` does the same from the shell.
"""

import json
from pathlib import Path

from faudit import fit
from faudit.figures import FIGURES
from faudit.figures.figure import make
from faudit.figures.style import Style
from faudit.figures.table import Table
from faudit.papers import PAPERS

plan = PAPERS["faeval"].plan("digits", epochs=2, seeds=(42,))
figure = FIGURES["snapshot-resmlp"]()
for experiment in figure.experiments:
    fit(plan.config(experiment, seed=42), runs="runs")

picture = Path("snapshot.pdf")
make("snapshot-resmlp", figure, Table(plan, Path("runs")), style=Style("icml"), paths=[picture])
numbers = json.loads(picture.with_suffix(".json").read_text())
for line in numbers["panels"][0][0]["lines"]:
    before, after = line["middle"][0], line["middle"][-1]
    print(f"{line['rule']:>4}: ‖h_L‖ {before:.3g} before training, {after:.3g} after {line['epochs'][-1]} epochs")
