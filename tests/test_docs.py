"""Links lead somewhere, code runs and prints what is shown, numbers come from logs, and sentences are short."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from faudit.cli.list import FAMILIES
from faudit.cli.main import parsed, parser
from faudit.registry import OWN
from faudit.sweep.study import read_study
from tests.support.pages import Block, blocks_of, differs
from tests.support.paths import ROOT
from tests.support.terminal import in_terminal

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "evidence").glob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
)
LONGEST = 34  # words of a sentence
# The last three are directives of docs/_ext, which the site replaces by what the code says.
LANGUAGES = (
    "python",
    "sh",
    "toml",
    "output",
    "text",
    "math",
    "{commands}",
    "{api}",
    *(f"{{members}} {family}" for family in FAMILIES),
)
RUN_WHOLE = (
    "tutorial.md",
    "own.md",
    "watch.md",
    "extend.md",
)  # pages whose commands are run too; the commands of others are parsed
DRAWN = (ROOT / "docs", "tutorial.json")  # the numbers of the figure that the tutorial shows


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def without_code(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def any_python(page: Path) -> bool:
    return any(block.language in ("python", "toml") and block.runs for block in blocks_of(page))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            heads = re.findall(r"^#+ (.+)$", file.read_text(), flags=re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads], target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_has_a_language_that_is_tested(page: Path) -> None:
    """So no code escapes: text holds no commands, and an output follows what prints it."""
    before: Block | None = None
    for block in blocks_of(page):
        assert block.language in LANGUAGES, f"{block}: {block.language or 'no language'}"
        if block.language == "text":
            assert not re.search(r"^(faudit|make|pip|import|from) ", block.text, flags=re.MULTILINE), block
        if block.language == "output":
            assert before is not None and before.runs, f"{block} follows nothing that runs"
            assert before.language == "python" or (before.language == "sh" and page.name in RUN_WHOLE), block
        before = block


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_blocks_of_code_parse(page: Path) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    commands = [line for block in blocks_of(page) if block.language == "sh" for line in block.commands()]
    assert commands or page != ROOT / "README.md"
    for line in commands:
        command, *words = shlex.split(line.replace("…", ""))
        if command == "faudit" and words[0] == "train" and any(map(OWN.fullmatch, words)):
            continue  # its flags are known only where the own member is: RUN_WHOLE and test_own_members.py run it
        if command == "faudit":
            assert parsed(parser(), words[: words.index(">")] if ">" in words else words).command
        elif command == "make":
            assert set(words) <= set(targets), line
        else:
            assert command in (".", "cd", "mkdir", "pip", "python", "python3"), f"{page.name}: {line}"


def test_few_blocks_do_not_run() -> None:
    """A block that cannot run says so in its first line, where a reader sees it. Here each is counted."""
    marked = Counter(name_of(page) for page in PAGES for block in blocks_of(page) if not block.runs)
    assert marked == {"README.md": 1, "docs/tutorial.md": 1, "docs/watch.md": 1}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "tutorial.md" and any_python(page)], ids=name_of
)
def test_the_python_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_blocks(page, capsys=capsys)
    forget_modules_in(tmp_path)
    assert ran


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN_WHOLE)
def test_a_page_runs_as_a_reader_would_follow_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every file is saved, and every command is run in a terminal. What is shown is what comes out."""
    monkeypatch.chdir(tmp_path)
    ran = run_blocks(ROOT / "docs" / name, capsys=capsys, shell_in=tmp_path)
    forget_modules_in(tmp_path)
    assert any(block.language == "sh" for block in ran)
    if name == "tutorial.md":
        drawn, kept = ((folder / file).read_text() for folder, file in ((tmp_path, "figure.json"), DRAWN))
        assert differs(kept, drawn) is None, differs(kept, drawn)
        assert (tmp_path / "report.html").stat().st_size > 100_000


def run_blocks(page: Path, *, capsys: pytest.CaptureFixture[str], shell_in: Path | None = None) -> list[Block]:
    """Run the blocks of a page in order, Python in one namespace, and compare the outputs. Returns what was run."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed, ran = "", list[Block]()
    for block in blocks_of(page):
        if block.language == "output":
            if ran[-1].language != "sh" or shell_in is not None:
                assert (problem := differs(block.text, printed)) is None, f"{block}: {problem}"
            continue
        if not block.runs or block.language in ("text", "math"):
            continue
        if block.file is not None:
            Path(block.file).write_text(block.text)
        if block.language == "toml":
            settings = Path(block.file or "block.toml")
            settings.write_text(block.text)
            assert read_study(settings).runs, block
        elif block.language == "python" and block.file is None:
            exec(compile(block.text, str(block), "exec", dont_inherit=True), namespace)
            printed = capsys.readouterr().out
        elif block.language == "sh" and shell_in is not None:
            printed = "".join(output_of(line, shell_in) for line in block.commands())
        ran.append(block)
    return ran


def output_of(line: str, folder: Path) -> str:
    """What a command prints on stdout. An audit may end with any verdict."""
    done = in_terminal(line, folder)
    assert done.code in ((0, 1, 3) if line.startswith("faudit audit") else (0,)), f"{line}: {done}"
    return done.stdout


def forget_modules_in(folder: Path) -> None:
    """The next page may have a file of the same name."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("shown", "got"),
    [
        ("run a  0.50", "run a 0.49\n"),
        ("a … b", "a 3 x b"),
        ("growth 178×, epoch 8/8", "growth 190×, epoch 8/8"),
        ("4.64e+04", "4.5e+04"),
        ("adds 20%", "adds 22%"),
    ],
)
def test_an_output_may_differ_as_processors_do(shown: str, got: str) -> None:
    assert differs(shown, got) is None


@pytest.mark.parametrize(
    ("shown", "got"),
    [
        ("run a 0.50", "run b 0.50"),
        ("accuracy 0.50", "accuracy 0.61"),
        ("4 runs", "5 runs"),
        ("s42-8edc", "s42-9edc"),
        ("one line", "one line\nand another"),
    ],
)
def test_an_output_may_not_differ_otherwise(shown: str, got: str) -> None:
    assert differs(shown, got) is not None


def test_the_tables_hold_the_numbers_of_the_logs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = str(ROOT / "scripts" / "readme-tables")
    monkeypatch.setattr(sys, "argv", [script])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(script, run_name="__main__")
    assert ended.value.code == 0, capsys.readouterr().out


@pytest.mark.parametrize(("page", "lines"), [("README.md", 110), ("CONTRIBUTING.md", 60)])
def test_a_page_that_everybody_reads_is_short(page: str, lines: int) -> None:
    assert len((ROOT / page).read_text().splitlines()) <= lines


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_sentences_are_short(page: Path) -> None:
    """Outside code and tables: a reader whose first language is not English reads each sentence once."""
    prose = "\n".join(line for line in without_code(page).splitlines() if not line.lstrip().startswith("|"))
    for paragraph in re.split(r"\n\s*\n|\n(?=[-#>*])", prose):
        for sentence in re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split())):
            assert len(sentence.split()) <= LONGEST, f"{page.name}: {sentence}"


def test_nothing_of_this_machine_is_in_the_repo() -> None:
    """Neither a registry's address nor an absolute path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    names = [name for name in listed.split("\0") if name and not name.endswith(".gz")]
    if not names:
        pytest.skip("not a git checkout")
    for name in names:
        text = (ROOT / name).read_text(errors="replace")
        for word in ("/ro" + "ot/", "/wo" + "rk/", "/opt/" + "pypi", "index" + "-url"):
            assert word not in text, f"{name} holds {word}"
