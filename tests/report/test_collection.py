"""The numbers of the page are those of the rows; verdicts come from kept audits; only what changed is read again."""

from __future__ import annotations

import importlib
import json
import math
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from faudit.audit.audit import ControlIndex, audit, audit_kept, declared_facts
from faudit.audit.checks.check import NOT_MEASURED
from faudit.audit.protocol import DEFAULT, PROTOCOLS, protocol
from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.report.runs import deep_mean, null_of
from faudit.report.series import columns, rounded
from faudit.report.template import null
from faudit.rules import RULES
from faudit.store.audits import FILE
from faudit.store.rows import Row, to_line
from faudit.store.run import Run, runs_in
from tests.support import fabricate, stores
from tests.support.stores import REAL, look


def near(value: Any) -> Any:
    """A number of a row to six significant digits, by another way than the page's."""
    if isinstance(value, list):
        return [near(one) for one in value]
    return value if not isinstance(value, float) else pytest.approx(value, rel=5.1e-6, abs=0)


def test_every_number_of_every_row_is_on_the_page(made_up: Path) -> None:
    found = look(made_up)
    assert found.series.keys() == {run.name for run in runs_in(made_up)}
    for run in runs_in(made_up):
        series, rows = found.series[run.name], run.rows()
        assert series.keys() == rows[0].keys()
        for place, row in enumerate(rows):
            for name, value in row.items():
                if isinstance(value, list):
                    assert [column[place] for column in series[name]] == near(value)
                else:
                    assert series[name][place] == near(value)


def test_numbers_have_six_significant_digits_and_an_overflow_is_text() -> None:
    assert rounded(1.23456789e-9) == 1.23457e-9 and rounded(123456789.0) == 123457000.0 and rounded(7) == 7
    assert [rounded(value) for value in (math.inf, -math.inf, math.nan, None, True)] == [
        "inf",
        "-inf",
        "nan",
        None,
        True,
    ]


def test_a_list_of_lists_is_flat_and_a_missing_one_is_empty() -> None:
    first, last = Row({"epoch": 0}), Row({"epoch": 1, "gamma_null_draws": [[0.1, 0.2], None], "gamma": [0.5, None]})
    found = columns([first, last])
    assert found["gamma_null_draws"] == [[None, 0.1], [None, 0.2], [None, None], [None, None]]
    assert found["gamma"] == [[None, 0.5], [None, None]] and found["epoch"] == [0, 1]


def test_the_first_screen_holds_the_mean_and_the_spread_of_the_rows(made_up: Path) -> None:
    found = look(made_up)
    for method in found.document["methods"]:
        last = [Run(made_up / name).rows()[-1] for name in method["runs"]]
        assert len(last) == len(method["seeds"]) == method["accuracy"]["n"] == 2
        accuracies = [row["test_acc"] for row in last]
        assert method["accuracy"]["mean"] == pytest.approx(fmean(accuracies), rel=1e-5)
        assert method["accuracy"]["std"] == pytest.approx(stdev(accuracies), rel=1e-5)
        deep = [sum(row["gamma"][1:]) / len(row["gamma"][1:]) for row in last]
        assert method["gamma"]["mean"] == pytest.approx(fmean(deep), rel=1e-5)
        norms = [row["hidden_norms"] for row in last]
        assert method["growth"] == near([max(b / a for a, b in pairwise(one)) for one in norms])


def test_methods_of_one_name_tell_the_setting_in_which_they_differ(tmp_path: Path) -> None:
    for lr in (0.001, 0.002):
        fabricate.write(RunConfig(rule="dfa", lr=lr, epochs=2), tmp_path)
    fabricate.write(RunConfig(rule="bp", epochs=2), tmp_path)
    names = [method["name"] for method in look(tmp_path).document["methods"]]
    assert names == [
        "bp on resmlp, digits, 2 epochs",
        "dfa on resmlp, digits, 2 epochs, lr 0.001",
        "dfa on resmlp, digits, 2 epochs, lr 0.002",
    ]
    assert look(tmp_path).document["differing"] == ["rule", "lr"], "a setting that only one rule reads does not differ"


def test_a_label_leaves_out_what_all_methods_share(tmp_path: Path) -> None:
    """The page tells it once. The names in CSV files and in the template stay whole."""
    for lr in (0.001, 0.002):
        fabricate.write(RunConfig(rule="dfa", lr=lr, epochs=2), tmp_path)
    document = look(tmp_path).document
    assert [one["label"] for one in document["methods"]] == ["dfa, lr 0.001", "dfa, lr 0.002"]
    assert document["shared"] == "resmlp, digits, 2 epochs"
    fabricate.write(RunConfig(rule="bp", epochs=3), tmp_path)
    document = look(tmp_path).document
    assert document["methods"][0]["label"] == "bp, 3 epochs" and document["shared"] == "resmlp, digits"
    fabricate.write(RunConfig(rule="bp", net="cnn", data="mnist", epochs=3), tmp_path)
    document = look(tmp_path).document
    assert all(one["label"] == one["name"] for one in document["methods"]) and document["shared"] == ""


def test_the_command_of_a_run_names_its_own_store(tmp_path: Path) -> None:
    run = fabricate.write(RunConfig(rule="dfa", epochs=2), tmp_path / "mine")
    assert look(tmp_path / "mine").runs[run.name]["command"].endswith(f"--runs {tmp_path / 'mine'}")


def test_a_check_that_decided_nothing_is_not_told_as_one_that_did_not_fire(audited_store: Path) -> None:
    found = look(audited_store)
    undecided = set()
    for method in found.document["methods"]:
        own = found.document["template"].split(f"### {method['name']}\n")[1].split("###")[0]
        for check in method["checks"]:
            findings = [one for name in method["runs"] for one in found.runs[name]["findings"]]
            said = {one["status"] for one in findings if one["check"] == check["check"]}
            assert check["open"] == (said.pop() if len(said) == 1 and not said & {"passed", "fired"} else "")
            if check["open"]:
                undecided.add((method["rule"], check["open"]))
                assert f"- Check {check['check']}: {check['open']}\n" in own
            else:
                assert "fired in" in own.split(f"- Check {check['check']}: ")[1].split("\n")[0]
    assert ("frozen-dfa", "not applicable") in undecided


def test_a_kept_audit_gives_the_verdict_of_the_audit_and_nothing_is_measured(
    audited_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {run.name: audit(run, PROTOCOLS[DEFAULT], data_dir=None).verdict for run in runs_in(audited_store)[1:2]}
    unaudited = Run(audited_store / REAL.with_(seed=7).run_id)
    (unaudited.path / FILE).unlink(missing_ok=True)
    run = Run(audited_store / REAL.run_id)
    whole = audit(run, PROTOCOLS[DEFAULT], data_dir=None)
    monkeypatch.setattr("faudit.audit.measure.measure", lambda *_, **__: pytest.fail("measured"))
    found = look(audited_store).runs
    assert found[run.name]["verdict"] == whole.verdict.verdict
    kept = audit_kept(run, PROTOCOLS[DEFAULT], control=ControlIndex(audited_store).control(REAL))
    assert kept.verdict == whole.verdict and kept.case == whole.case
    assert all(found[name]["verdict"] == verdict.verdict for name, verdict in expected.items())
    lacking = found[unaudited.name]
    assert lacking["verdict"] != "trustworthy" and not (unaudited.path / FILE).exists()
    assert NOT_MEASURED in {finding["status"] for finding in lacking["findings"]}


def test_the_facts_of_a_rule_are_read_without_importing_it() -> None:
    row = Row({"test_samples": 10, "classes": 2, "eval_samples": 5})
    for name in RULES:
        try:
            rule = RULES[name]
        except ConfigError:  # a rule that can have no control
            continue
        facts = declared_facts(RunConfig(rule=name), row)
        assert (facts.trains_blocks, facts.no_control, facts.no_credit) == (
            rule.trains_blocks, rule.no_control, rule.no_credit,
        ), name  # fmt: skip


def test_a_run_of_an_older_version_is_not_judged(tmp_path: Path) -> None:
    run = fabricate.write(RunConfig(rule="bp", epochs=2), tmp_path)
    older = [Row({name: value for name, value in row.items() if name != "classes"}) for row in run.rows()]
    run.rows_file.write_text("".join(map(to_line, older)))
    found = look(tmp_path).runs[run.name]
    assert found["verdict"] == "not audited" and f"faudit audit {run.name}" in found["sentence"]


def test_the_report_imports_no_torch(audited_store: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from faudit.cli.main import main; assert not main(sys.argv[1:]); assert 'torch' not in sys.modules"
    )
    words = [sys.executable, "-c", code, "report", "--runs", str(audited_store), "--out", str(tmp_path / "r.html")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_second_look_reads_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores.many(tmp_path, runs=4, epochs=2, seeds=2)
    going = fabricate.write(RunConfig(rule="bp", lr=0.5, epochs=4), tmp_path, until=1)
    found = look(tmp_path)
    assert not found.look() and found.looks == 1
    before = dict(found.pages)
    going.append(fabricate.row(going.config(), 2, __import__("random").Random(0)))
    assert found.look() and found.looks == 2
    assert [name for name, page in found.pages.items() if page is not before[name]] == [going.name]
    assert found.changed[going.name] == 2 and found.series[going.name]["epoch"] == [0, 1, 2]


def test_a_look_at_an_unchanged_store_opens_no_rows_and_a_new_row_reads_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.many(tmp_path, runs=4, epochs=2, seeds=2)
    going = fabricate.write(RunConfig(rule="bp", lr=0.5, epochs=90), tmp_path, until=50)
    found = look(tmp_path)
    opened: list[tuple[str, int]] = []
    for module in ("faudit.store.run", "faudit.report.growing"):
        real = importlib.import_module(module).contents

        def spy(path: str, start: int = 0, real: Any = real) -> Any:
            content = real(path, start)
            opened.extend([(str(path), len(content))] if str(path).endswith("rows.jsonl") else [])
            return content

        monkeypatch.setattr(f"{module}.contents", spy)
    monkeypatch.setattr("faudit.report.collection.WHOLE", 0.0)
    assert not found.look() and opened == []
    before, row = going.rows_file.stat().st_size, fabricate.row(going.config(), 51, random.Random(0))
    going.append(row)
    assert found.look()
    last = len(to_line(going.rows()[-2]))
    assert opened[:-1] == [(str(going.rows_file), going.rows_file.stat().st_size - before + last)]
    assert found.series[going.name] == columns(going.rows()) == look(tmp_path).series[going.name]


def test_a_line_in_two_parts_is_one_row_and_a_bad_one_is_named(tmp_path: Path) -> None:
    going = fabricate.write(RunConfig(rule="bp", epochs=9), tmp_path, until=1)
    found = look(tmp_path)
    line = to_line(fabricate.row(going.config(), 2, random.Random(0)))
    for part, epochs in ((line[:40], [0, 1]), (line[40:], [0, 1, 2]), ("", [0, 1, 2])):
        with open(going.rows_file, "a") as file:
            file.write(part)
        found.look()
        assert found.series[going.name]["epoch"] == epochs
    with open(going.rows_file, "a") as file:
        file.write(line)  # the epoch of the row before
    found.look()
    assert found.runs[going.name]["verdict"] == "damaged" and "line 4 is damaged: epoch" in found.problems[0]


def test_rows_that_were_written_anew_are_read_anew(tmp_path: Path) -> None:
    """In a new file, as a resumed run does, or in place, as an editor may."""
    going = fabricate.write(RunConfig(rule="bp", epochs=9), tmp_path, until=3)
    found = look(tmp_path)
    going.keep_rows(1)
    other = [fabricate.row(going.config(), epoch, random.Random(epoch)) for epoch in (2, 3, 4)]
    for row in other:
        going.append(row)
    found.look()
    assert found.series[going.name] == columns(going.rows())
    with open(going.rows_file, "r+b") as file:
        file.truncate()
        file.writelines(to_line(row).encode() for row in other)
        file.truncate()
    found.look()
    assert found.series[going.name] == columns(going.rows()) and found.series[going.name]["epoch"] == [2, 3, 4]


def test_a_control_that_ends_changes_the_verdict_of_its_run(tmp_path: Path) -> None:
    config = RunConfig(rule="dfa", epochs=6)
    run = fabricate.write(config, tmp_path)
    found = look(tmp_path)
    paired = {finding["check"]: finding for finding in found.runs[run.name]["findings"]}["paired"]
    assert paired["status"] == NOT_MEASURED
    fabricate.write(config.with_(rule="frozen-dfa"), tmp_path)
    assert found.look()
    paired = {finding["check"]: finding for finding in found.runs[run.name]["findings"]}["paired"]
    assert paired["status"] == "fired" and found.changed[run.name] == 2


def test_a_damaged_run_is_shown_as_damaged_and_an_unfinished_one_as_unfinished(tmp_path: Path) -> None:
    whole, bad = (fabricate.write(RunConfig(rule=rule, epochs=2), tmp_path) for rule in ("bp", "dfa"))
    going = fabricate.write(RunConfig(rule="fa", epochs=9), tmp_path, until=1)
    lost = fabricate.write(RunConfig(rule="bp", epochs=3), tmp_path)
    stores.failed(lost, "diverged: hidden_norms overflowed")
    bad.rows_file.write_text("nonsense\n")
    found = look(tmp_path)
    assert found.runs[bad.name]["verdict"] == "damaged" and "line 1 is damaged" in found.problems[0]
    assert found.runs[going.name]["verdict"] == "unfinished"
    assert found.runs[lost.name]["status"] == "failed" and "overflowed" in found.runs[lost.name]["outcome"]["reason"]
    assert whole.name in found.series and bad.name not in found.series
    json.dumps([found.document, found.runs, found.series], allow_nan=False)


def test_an_overflow_and_what_was_not_measured_stay_what_they_are(tmp_path: Path) -> None:
    run = fabricate.write(RunConfig(rule="dfa", epochs=2), tmp_path)
    rows = run.rows()
    rows[-1]["hidden_norms"][-1], rows[-1]["gamma"][-1], rows[-1]["acc_eval"] = math.inf, None, math.nan
    run.rows_file.write_text("".join(map(to_line, rows)))
    found = look(tmp_path)
    assert found.runs[run.name]["last"]["growth"] == "inf" and found.runs[run.name]["last"]["gamma"] is None
    assert found.series[run.name]["acc_eval"][-1] == "nan" and found.series[run.name]["hidden_norms"][-1][-1] == "inf"
    assert found.document["methods"][0]["growth"] == ["inf"]
    json.dumps([found.document, found.runs, found.series], allow_nan=False)


def test_the_null_is_that_of_the_deep_mean_over_whole_draws() -> None:
    row = Row({"gamma_null_draws": [[9.0, 9.0, 9.0], [0.0, 0.2, 0.4], [0.2, 0.4, 0.6]]})
    assert null_of(row) == {"null_mean": pytest.approx(0.3), "null_std": pytest.approx(0.2), "null_none": False}
    assert null_of(Row({"gamma_null_draws": [[], []]}))["null_none"] is True
    assert (
        deep_mean([1.0, 0.2, 0.4]) == pytest.approx(0.3) and deep_mean([0.7]) == 0.7 and deep_mean([1.0, None]) is None
    )


def test_the_claims_of_a_paper_whose_runs_are_there_are_on_the_page(tmp_path: Path) -> None:
    from faudit.papers import PAPERS

    plan = PAPERS["faeval"].plan("digits", epochs=3)
    fabricate.all_runs(plan, tmp_path, ["resmlp bp", "resmlp dfa"])
    (paper,) = look(tmp_path).document["claims"]
    assert paper["paper"] == "faeval" and paper["rehearsal"] == "digits, 3 epochs"
    assert len(paper["rows"]) == len(PAPERS["faeval"].claims) == sum(paper["counts"].values())
    words = [row["verdict"] for row in paper["rows"]]
    assert set(words) == {"rehearsed", "not run"}, "a rehearsal neither reproduces a claim nor deviates from it"
    assert paper["counts"] == {"rehearsed": words.count("rehearsed"), "not run": words.count("not run")}


def test_the_claims_of_full_runs_have_verdicts(tmp_path: Path) -> None:
    from faudit.papers import PAPERS

    fabricate.all_runs(PAPERS["faeval"].plan(), tmp_path, ["student bp", "student dfa"])
    (paper,) = look(tmp_path).document["claims"]
    assert paper["rehearsal"] == "" and "rehearsed" not in paper["counts"]
    assert {row["verdict"].split(" (")[0] for row in paper["rows"]} - {"not run"}


def test_no_two_methods_look_alike(tmp_path: Path) -> None:
    for changes in ({}, {"no_terminal_norm": True}, {"lr": 0.01}, {"lr": 0.02}, {"lr": 0.03}):
        fabricate.write(RunConfig(rule="dfa", epochs=2, **changes), tmp_path)
    methods = look(tmp_path).document["methods"]
    assert len({(one["colour"], tuple(one["dash"])) for one in methods}) == len(methods) == 5


def test_the_template_tells_what_a_paper_should_print(audited_store: Path) -> None:
    text = look(audited_store).document["template"]
    for words in (
        "Accuracy on the full test set",
        "under fresh feedback",
        "Data fingerprint",
        "Check scale",
        "(n = 2)",
    ):
        assert words in text
    assert protocol(DEFAULT).name in text


def test_the_template_tells_a_rule_without_feedback_from_a_null_that_was_not_measured() -> None:
    assert null({"mean": None, "std": None, "none": True}) == "the rule has no feedback to draw"
    assert null({"mean": None, "std": None, "none": False}) == "not measured"
