"""The section of a paper in the documentation: what is asked without results, and the results where there are some."""

from __future__ import annotations

from pathlib import Path

import pytest

from faudit.figures.table import Table
from faudit.papers import PAPERS
from faudit.papers.claim import judged
from faudit.papers.page import overview, section
from tests.support.papers import CLAIMS, PAPER, RECIPE, everything


def test_without_results_a_section_says_what_is_asked() -> None:
    text = "\n".join(section(PAPER, None))
    assert "Not run yet." in text and "Published numbers: its log." in text and "Runs: 6, seeds 1, 2." in text
    assert "2 seeds, 4 epochs |" in text and "reproduced" not in text
    for claim in CLAIMS:
        assert f"| {claim.name} | {claim.published} |" in text


def test_with_results_a_section_has_their_verdicts(tmp_path: Path) -> None:
    everything(tmp_path)
    found = {"claims": judged(CLAIMS, Table(RECIPE.plan(), tmp_path)), "rehearsal": False}
    text = "\n".join(section(PAPER, found))
    assert text.count("| reproduced |") == len(CLAIMS) and "Not run yet" not in text
    assert "reproduced (rehearsal)" in "\n".join(section(PAPER, {**found, "rehearsal": True}))


@pytest.mark.parametrize("name", PAPERS)
def test_every_paper_has_a_section_and_a_line(name: str) -> None:
    claims = PAPERS[name].claims
    assert len(section(PAPERS[name], None)) > len(claims)
    verdicts = [{"verdict": "reproduced"}] * (len(claims) - 1) + [{"verdict": "partial"}]
    assert overview({name: None})[2] == f"| `{name}` | {len(claims)} | 0 | {len(claims)} | 0 | 0 |"
    assert overview({name: {"claims": verdicts}})[2] == f"| `{name}` | {len(claims)} | 0 | 0 | 1 | {len(claims) - 1} |"
