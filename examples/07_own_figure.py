"""Draw your own figure from your own runs. One file holds the experiments, the numbers and the drawing.

A figure names its experiments, turns their rows into plain numbers, and draws those numbers. The JSON file beside the
picture holds every drawn number.
"""

from pathlib import Path

from matplotlib.figure import Figure as Picture

from faudit import RunConfig, fit
from faudit.figures.figure import Figure, Numbers, at, line, make, panel
from faudit.figures.plan import Recipe
from faudit.figures.style import BAND, Style, draw_panel, footnote, legend, symbol
from faudit.figures.table import Table

SMALL = RunConfig(data="digits", epochs=5, batch_size=32, width=64)
RECIPE = Recipe(
    experiments={"plain": SMALL.with_(rule="dfa"), "penalised": SMALL.with_(rule="dfa", penalty=0.1)},
    data="digits",
    seeds=(1, 2),
)


class StreamUnderPenalty(Figure):
    """The size of the last hidden state over the epochs, with and without a penalty."""

    experiments = ("plain", "penalised")

    def numbers(self, table: Table) -> Numbers:
        lines = [line(table, name, at("hidden_norms", -1), log=True) for name in self.experiments]
        return {"panel": panel("stream", symbol("hidden_norms", "L"), lines, log=True)}

    def draw(self, numbers: Numbers, style: Style) -> Picture:
        picture, axes = style.grid(1, 1, wide=self.wide, height=1.6)
        draw_panel(axes[0][0], numbers["panel"], title=False)
        axes[0][0].set_xlabel("epoch")
        legend(picture, axes[0], columns=2)
        footnote(picture, numbers, numbers["panel"]["lines"], what=BAND)
        return picture


if __name__ == "__main__":
    plan = RECIPE.plan()
    for name in StreamUnderPenalty.experiments:
        for seed in plan.seeds:
            fit(plan.config(name, seed), runs="runs")
    picture = Path("stream.png")
    make("stream", StreamUnderPenalty(), Table(plan, Path("runs")), style=Style("icml"), paths=[picture])
    print(f"{picture} and {picture.with_suffix('.json')}")
