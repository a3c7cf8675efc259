"""ViT-Mini over the epochs, BP against DFA: ‖h_L‖ and ‖∂ℓ/∂h_2‖ of the cls token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faudit.figures.figure import Figure, Numbers, at, line, panel
from faudit.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from faudit.figures.style import Style

RULES = ("bp", "dfa")


class SnapshotViT(Figure):
    """ViT-Mini: size of the cls token and of its gradient, BP against DFA."""

    experiments = tuple(f"vit {rule}" for rule in RULES)

    def numbers(self, table: Table) -> Numbers:
        hidden, gradient = at("hidden_norms", -1), at("grad_norms", 2)
        return {
            "panels": [
                panel("cls token", "h_L", [line(table, name, hidden, log=True) for name in self.experiments], log=True),
                panel(
                    "its gradient",
                    "g_2",
                    [line(table, name, gradient, log=True) for name in self.experiments],
                    log=True,
                ),
            ]
        }

    def draw(self, numbers: Numbers, style: Style) -> Picture:
        from faudit.figures.style import BAND, G_2, H_L, draw_panel, footnote, legend

        picture, axes = style.grid(1, 2, wide=self.wide, height=1.35)
        for ax, one, label in zip(axes[0], numbers["panels"], (H_L, G_2), strict=True):
            draw_panel(ax, {**one, "label": label})
            ax.set_xlabel("epoch")
        legend(picture, axes[0], columns=4)
        footnote(picture, numbers, [one for p in numbers["panels"] for one in p["lines"]], what=BAND)
        return picture
