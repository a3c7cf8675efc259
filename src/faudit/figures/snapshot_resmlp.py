"""ResMLP over the epochs, BP against DFA: ‖h_L‖ and ‖∂ℓ/∂h_2‖. Rows: with and without terminal LayerNorm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faudit.figures.figure import Figure, Numbers, at, line, panel
from faudit.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from faudit.figures.style import Style

ROWS = {"resmlp": "with terminal LN", "noln": "without terminal LN"}
RULES = ("bp", "dfa")


class SnapshotResMLP(Figure):
    """ResMLP: stream size and gradient size, BP against DFA, with and without the terminal LayerNorm."""

    experiments = tuple(f"{row} {rule}" for row in ROWS for rule in RULES)

    def numbers(self, table: Table) -> Numbers:
        hidden, gradient = at("hidden_norms", -1), at("grad_norms", 2)
        return {
            "panels": [
                [
                    panel(title, "h_L", [line(table, f"{row} {rule}", hidden, log=True) for rule in RULES], log=True),
                    panel(title, "g_2", [line(table, f"{row} {rule}", gradient, log=True) for rule in RULES], log=True),
                ]
                for row, title in ROWS.items()
            ]
        }

    def draw(self, numbers: Numbers, style: Style) -> Picture:
        from faudit.figures.style import BAND, G_2, H_L, draw_panel, footnote, legend

        picture, axes = style.grid(2, 2, wide=self.wide, height=1.25)
        labels = {"h_L": H_L, "g_2": G_2}
        for row, panels in zip(axes, numbers["panels"], strict=True):
            for ax, one in zip(row, panels, strict=True):
                draw_panel(ax, {**one, "label": labels[one["label"]]})
        for ax in axes[-1]:
            ax.set_xlabel("epoch")
        legend(picture, [ax for row in axes for ax in row], columns=4)
        footnote(picture, numbers, [one for row in numbers["panels"] for p in row for one in p["lines"]], what=BAND)
        return picture
