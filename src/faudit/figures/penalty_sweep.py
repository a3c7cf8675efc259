"""DFA with a penalty on its branches, for several λ: ‖h_L‖, ‖∂ℓ/∂h_2‖ and accuracy over the epochs.

The gradient panel shows the paper's floor. The accuracy panel shows the measured frozen-blocks baseline of the same
length, and a line at the baseline plus the paper's margin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from faudit.audit.protocol import PROTOCOLS
from faudit.figures.figure import Figure, Numbers, at, final, line, of, panel
from faudit.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from faudit.figures.style import Style

CURVES = ("matched dfa", *(f"matched dfa λ={value}" for value in ("0.0001", "0.001", "0.01", "0.1")))
FROZEN = "matched frozen-dfa"


class PenaltySweep(Figure):
    """DFA with several penalties: stream size, gradient size with the floor, accuracy with the frozen baseline."""

    experiments = (*CURVES, FROZEN)
    wide: ClassVar[bool] = True

    def numbers(self, table: Table) -> Numbers:
        columns = {"h_L": at("hidden_norms", -1), "g_2": at("grad_norms", 2), "accuracy": of("acc_eval")}
        return {
            "panels": [
                panel(label, label, [line(table, name, value, log=log) for name in CURVES], log=log)
                for label, value in columns.items()
                for log in (label != "accuracy",)
            ],
            "floor": PROTOCOLS["paper"]["floor"].floor,
            "frozen": final(table, FROZEN, of("acc_eval")),
            "margin": PROTOCOLS["paper"]["points"].points,
        }

    def draw(self, numbers: Numbers, style: Style) -> Picture:
        from faudit.figures.style import BAND_LINEAR, G_2, H_L, decades, draw_panel, footnote, legend, level, values_of

        picture, axes = style.grid(1, 3, wide=self.wide, height=1.6)
        for ax, one, title in zip(axes[0], numbers["panels"], (H_L, G_2, "accuracy (buffer)"), strict=True):
            draw_panel(ax, one, title=False, label=False)
            ax.set_title(title)
            ax.set_xlabel("epoch")
        level(axes[0][1], numbers["floor"], "the paper's floor")
        decades(axes[0][1], [numbers["floor"], *values_of(numbers["panels"][1]["lines"])])
        if frozen := numbers["frozen"]:
            above = f"frozen + {100 * numbers['margin']:g} pp"
            level(axes[0][2], frozen["middle"], "frozen blocks", dash=(0, (4, 2)), band=frozen)
            level(axes[0][2], frozen["middle"] + numbers["margin"], above, dash=(0, (6, 1, 1, 1)))
        legend(picture, axes[0], columns=4)
        footnote(picture, numbers, [one for p in numbers["panels"] for one in p["lines"]], what=BAND_LINEAR)
        return picture
