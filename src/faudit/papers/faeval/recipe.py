"""The experiments of the paper: those of ``runs.toml``, with smaller sizes for the digits and shorter runs allowed."""

from __future__ import annotations

from faudit.papers.paper import study_recipe

# The digits are small. With these sizes they show the same effects in seconds.
SIZES = {
    "digits": {"resmlp": {"batch_size": 32, "width": 128}, "vit": {"batch_size": 32, "patch": 2}},
}
SHORTENED = ("vit", "noln")  # they are slow to train; a claim from shorter runs is partial

recipe = study_recipe("faeval", sizes=SIZES, shortened=SHORTENED)
