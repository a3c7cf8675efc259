"""What can be seen in a picture."""

from __future__ import annotations

from matplotlib.figure import Figure as Picture
from matplotlib.text import Text


def texts_of(picture: Picture) -> list[Text]:
    """Every text that is to be seen; matplotlib keeps labels of ticks outside an axis' range, unseen."""
    texts = [text for legend in picture.legends for text in legend.get_texts()]
    texts += [text for text in (picture._supxlabel,) if text]  # type: ignore[attr-defined]  # it has no getter
    for ax in picture.axes:
        texts += [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [text for text in texts if text.get_visible()]
