"""Three architectures, three rules: ‖h_L‖, ‖∂ℓ/∂h_L‖ and accuracy over the epochs.

The rows are ViT-Mini, ResMLP without the terminal LayerNorm, and StudentNet. The gradient has the same range in every
row, so that rows can be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from faudit.audit.protocol import PROTOCOLS
from faudit.figures.figure import Figure, Numbers, at, line, of, panel
from faudit.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from faudit.figures.style import Style

ROWS = {"vit": "ViT-Mini", "noln": "ResMLP\nno terminal LN", "student": "StudentNet"}
RULES = ("bp", "fa", "dfa")


class CrossArchitecture(Figure):
    """Three architectures under BP, FA and DFA: stream size, gradient size and accuracy."""

    experiments = tuple(f"{row} {rule}" for row in ROWS for rule in RULES)
    wide: ClassVar[bool] = True

    def numbers(self, table: Table) -> Numbers:
        columns = {"h_L": at("hidden_norms", -1), "g_L": at("grad_norms", -1), "accuracy": of("acc_eval")}
        return {
            "panels": [
                [
                    panel(
                        title,
                        label,
                        [line(table, f"{row} {rule}", value, log=label != "accuracy") for rule in RULES],
                        log=label != "accuracy",
                    )
                    for label, value in columns.items()
                ]
                for row, title in ROWS.items()
            ],
            "floor": PROTOCOLS["paper"]["floor"].floor,
        }

    def draw(self, numbers: Numbers, style: Style) -> Picture:
        from faudit.figures.style import BAND_LINEAR, G_L, H_L, decades, draw_panel, footnote, legend, level, values_of

        picture, axes = style.grid(3, 3, wide=self.wide, height=1.2)
        gradients = [numbers["floor"], *values_of(one for row in numbers["panels"] for one in row[1]["lines"])]
        for row, panels in zip(axes, numbers["panels"], strict=True):
            for ax, one in zip(row, panels, strict=True):
                draw_panel(ax, one, title=False, label=False)
            row[0].set_ylabel(panels[0]["title"], fontweight="bold", fontsize=7)
            level(row[1], numbers["floor"], "the paper's floor")
            decades(row[1], gradients)
            row[2].set_ylim(0.0, 1.0)
        for ax, title in zip(axes[0], (H_L, G_L, "accuracy (buffer)"), strict=True):
            ax.set_title(title)
        for ax in axes[-1]:
            ax.set_xlabel("epoch")
        legend(picture, [ax for row in axes for ax in row], columns=4)
        lines = [one for row in numbers["panels"] for p in row for one in p["lines"]]
        footnote(picture, numbers, lines, what=BAND_LINEAR)
        return picture
