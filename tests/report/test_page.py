"""The page holds everything itself, and no text of a run can become part of its code."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.report import vega
from faudit.report.page import SCRIPTS, asset, escaped, html
from tests.support import fabricate, stores
from tests.support.paths import ROOT
from tests.support.stores import SCRIPT, look

pytest.importorskip("vl_convert", reason="the page needs vl-convert-python")


def element(page: str, name: str) -> str:
    found = re.search(rf'<script[^>]* id="{name}">(.*?)</script>', page, flags=re.DOTALL)
    assert found
    return found[1]


def test_the_data_in_the_page_are_the_data(made_up: Path) -> None:
    found = look(made_up)
    page = html(found)
    assert json.loads(element(page, "data"))["runs"] == json.loads(json.dumps(found.runs))
    series = json.loads(gzip.decompress(base64.b64decode(element(page, "series"))))
    assert series == json.loads(json.dumps(found.series))


def test_text_of_a_run_cannot_end_its_element(tmp_path: Path) -> None:
    run = fabricate.write(RunConfig(rule="dfa", epochs=2), tmp_path)
    stores.failed(run, SCRIPT)
    run.path.rename(tmp_path / "a<b>&'\"")
    (tmp_path / "a<b>&'\"" / "env.json").write_text(json.dumps({"cpu": f"{SCRIPT}<!--"}))
    page = html(look(tmp_path))
    assert (
        page.count("</script>") == 4
        and "<script>alert" not in page
        and SCRIPT in str(json.loads(element(page, "data")))
    )
    assert escaped("</script><!--\u2028é") == '"\\u003c/script>\\u003c!--\\u2028\\u00e9"'


def test_only_the_scripts_of_the_page_may_run_and_nothing_may_be_fetched(made_up: Path) -> None:
    page = html(look(made_up))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy and "default-src 'none'" in policy[1] and "connect-src 'none'" in policy[1]
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    for script in scripts:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy[1]
    assert len(scripts) == 2 and "connect-src 'self'" in html(look(made_up), live="x-1")
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page.replace(scripts[0], ""))


def test_the_scripts_insert_text_only_as_text() -> None:
    for name in SCRIPTS:
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert word not in asset(name), f"{name} uses {word}"


def test_a_kept_script_that_was_cut_is_not_used(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.js", tmp_path / "cut.js"
    whole.write_text(f"{vega.checksum('let a;')}\nlet a;")
    cut.write_text(f"{vega.checksum('let a;')}\nlet a")
    assert vega.read(whole) == "let a;" and vega.read(cut) == vega.read(tmp_path / "none.js") == ""


def test_too_little_memory_for_the_engine_is_one_line_and_not_a_crash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31)); " + vega.BUNDLE
    monkeypatch.setattr(vega, "BUNDLE", limited)
    with pytest.raises(ConfigError, match=r"expected exit code 0, got -?\d+\. .*ulimit -v") as caught:
        vega.bundled()
    assert "\n" not in str(caught.value)


def test_without_its_package_the_report_says_how_to_install_it(made_up: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['vl_convert'] = None; import importlib.util as u; old = u.find_spec\n"
    code += "u.find_spec = lambda name, *a: None if name == 'vl_convert' else old(name, *a)\n"
    code += "from faudit.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "report", "--runs", str(made_up), "--out", str(tmp_path / "r.html")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "pip install 'faudit[report]'" in done.stderr


def test_the_command_writes_the_file_and_tells_its_name(
    made_up: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    assert main(["report", "--runs", str(made_up), "--where", "rule=bp", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{out}\n" and said.err == ""
    shown = json.loads(element(out.read_text(), "data"))
    assert shown["where"] == ["rule=bp"] and {run["rule"] for run in shown["runs"].values()} == {"bp"}
    assert main(["report", "--runs", str(made_up), "--out", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")


def test_a_damaged_run_is_told_and_the_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabricate.write(RunConfig(rule="bp", epochs=2), tmp_path / "runs")
    fabricate.write(RunConfig(rule="dfa", epochs=2), tmp_path / "runs").rows_file.write_text("x\n")
    out = tmp_path / "report.html"
    assert main(["report", "--runs", str(tmp_path / "runs"), "--out", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and out.stat().st_size > 500_000


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--runs", "EMPTY", "--out", "OUT"], "holds no runs: expected at least one"),
        (["--runs", "EMPTY/x", "--out", "OUT"], "no run store at"),
        (["--runs", "RUNS", "--out", "EMPTY/no/r.html"], "No such file or directory"),
        (["--runs", "RUNS", "--out", "EMPTY"], "got a directory"),
        (["--runs", "RUNS", "--out", "OUT", "--where", "rule=drtp"], "no run that matches --where rule=drtp"),
        (["--runs", "RUNS", "--out", "OUT", "--where", "rul=bp"], "did you mean 'rule'?"),
        (["--runs", "RUNS", "--out", "OUT", "--protocol", "x"], "unknown protocol 'x'"),
    ],
)
def test_bad_input_is_one_clear_line(
    made_up: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    (tmp_path / "empty").mkdir()
    places = {"EMPTY": str(tmp_path / "empty"), "RUNS": str(made_up), "OUT": str(tmp_path / "r.html")}
    filled = [
        word.replace("EMPTY", places["EMPTY"]) if word.startswith("EMPTY") else places.get(word, word) for word in words
    ]
    assert main(["report", *filled]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and told in said.err and not (tmp_path / "r.html").exists()
