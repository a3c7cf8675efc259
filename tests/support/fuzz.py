"""Seeded cases of bad input, each run on a copy of a sandbox in a fork, and what must hold after any of them.

A case either spoils one file and runs a command that reads it, or runs a command with flags of all kinds. Then:

- no traceback, no hang, no signal, and an exit code that the command may have;
- a few lines on stderr, the first of which says what is wrong where the code is 2; strict JSON on stdout under --json;
- no file changed that the command does not own, no special file replaced, nothing half-written left behind;
- the answer is the one that the unspoiled files give, or the damage is told of (``Reader.trusts``).

    scripts/fuzz 5000 --seed 7            # 5000 cases
    scripts/fuzz 1 --seed 7 --first 1234  # the case that failed, once more
"""

from __future__ import annotations

import argparse
import fnmatch
import gzip
import hashlib
import importlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from tests.support import sandbox, spoil
from tests.support.child import Answer, fork, forked

MEMORY = 3 << 30  # bytes that a case may map beside what the fork has
PATIENCE = 90.0  # seconds; the slowest case takes one on an idle machine
LINES, LONG = 16, 3000  # of stderr, and characters of one
PYTHON = re.compile(r"Traceback \(most recent|object at 0x|\b[A-Z]\w*(?:Error|Exception)\(|Exception ignored")
OWNED = ("*/lock", "*/index.sqlite")  # by every command: whoever asks for a run's state holds its lock for a moment

Snapshot = dict[str, tuple[str, str]]  # path → what it is, and its contents


@dataclass(frozen=True)
class Reader:
    """A command, the files it reads, the files it may write, and the exit codes it may have.

    ``trusts`` says what is wrong with an answer that is not the one of the unspoiled files, where it may not differ.
    """

    words: tuple[str, ...]
    reads: tuple[str, ...]
    owns: tuple[str, ...] = ()
    codes: tuple[int, ...] = (0, 2)
    trusts: Callable[[Answer, Answer, Path, str], str] = lambda answer, usual, root, file: ""


def same_or_told(answer: Answer, usual: Answer, root: Path, file: str) -> str:
    """The usual answer, or exit code 2; without its weights a run may be judged by its rows, if that is told."""
    if answer.code == 2 or (answer.code, answer.out) == (usual.code, usual.out):
        return ""
    if answer.code != 0 and "last.safetensors is missing" in answer.err:
        return ""
    return "a spoiled file was read without a word: the answer is another one"


def judged(answer: Answer, usual: Answer, root: Path, file: str) -> str:
    """The usual verdict, or exit code 2; a spoiled control is none, which makes no verdict a better one."""
    if sandbox.run_name(root, "audited") not in file and answer.code in (3, usual.code):
        return ""
    return same_or_told(answer, usual, root, file)


def shown(answer: Answer, usual: Answer, root: Path, file: str) -> str:
    """As above, but for what nothing ties."""
    return "" if is_untied(answer, usual, root, file) else same_or_told(answer, usual, root, file)


def is_untied(answer: Answer, usual: Answer, root: Path, file: str) -> bool:
    """Whether nothing ties what was spoiled: the environment, timings, and the rows of a run that goes on."""
    untied = file.endswith("env.json") or sandbox.run_name(root, "stopped") in file or "imported-" in file
    untied |= file.endswith("done.json") and not (root / file).exists()  # then the run has not ended
    return untied or (answer.code == usual.code and differ_in_timings_alone(root / file, template() / file))


def same_or_remarked(answer: Answer, usual: Answer, root: Path, file: str) -> str:
    """The usual answer, unless the damage is told of: a command on many runs leaves a damaged one out."""
    if is_told(answer, usual, root, file) or (answer.code, answer.out) == (usual.code, usual.out):
        return ""
    return "a spoiled file was read without a word: the answer is another one"


def is_told(answer: Answer, usual: Answer, root: Path, file: str) -> bool:
    """Whether damage is told of, by the exit code or in a remark; or nothing ties what was spoiled."""
    return answer.code == 2 or answer.err != usual.err or is_untied(answer, usual, root, file)


def writes(words: tuple[str, ...], reads: tuple[str, ...], owns: tuple[str, ...]) -> Reader:
    """A command whose answer is in files: the usual ones, unless the damage is told of."""

    def trusts(answer: Answer, usual: Answer, root: Path, file: str) -> str:
        if is_told(answer, usual, root, file):
            return ""
        now, then = (
            {name: holds for name, holds in found.items() if any(fnmatch.fnmatch(name, pattern) for pattern in owns)}
            for found in (snapshot(root), left_by(words))
        )
        return "" if now == then else "a spoiled file was read without a word: the files written are others"

    return Reader(words, reads, owns, trusts=trusts)


@cache
def left_by(words: tuple[str, ...]) -> Snapshot:
    """What a command leaves where nothing is spoiled."""
    with copied() as root:
        forked(words, cwd=root, memory=MEMORY, patience=PATIENCE)
        return snapshot(root)


def differ_in_timings_alone(path: Path, whole: Path) -> bool:
    """Whether two files of rows hold the same but for their timings."""
    if path.name != "rows.jsonl" or not path.is_file():
        return False
    try:
        spoiled, sound = ([json.loads(line) for line in file.read_bytes().splitlines()] for file in (path, whole))
    except ValueError:
        return False
    for row in (*spoiled, *sound):
        for name in ("seconds", "probe_seconds") if isinstance(row, dict) else ():
            row.pop(name, None)
    return spoiled == sound


def resumed(answer: Answer, usual: Answer, root: Path, file: str) -> str:
    """A run that ends has the weights that it always ends with."""
    if answer.code != 0:
        return ""
    found = [json.loads((root / "runs" / name / "done.json").read_text()) for name in os.listdir(root / "runs")
             if name.startswith("resmlp-fa-")]  # fmt: skip
    return "" if found[0]["weights_sha256"] == resumed_weights(str(root)) else "resumed to other weights"


def held_against_data(answer: Answer, usual: Answer, root: Path, file: str) -> str:
    """A finished run with other data is refused; with data that cannot be read it is told of."""
    if answer.code == 2 or answer.err.startswith("faudit: warning: "):
        return ""
    whole = template() / file
    same = (root / file).is_file() and unpacked(root / file) == unpacked(whole)
    return "" if same else "other data was accepted without a word"


def unpacked(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError, ValueError):
        return path.read_bytes()


@cache
def resumed_weights(_: str = "") -> str:
    """What the stopped run ends with when nothing is spoiled."""
    with copied() as root:
        name = sandbox.run_name(root, "stopped")
        forked([*sandbox.TRAIN["stopped"]], cwd=root)
        return str(json.loads((root / "runs" / name / "done.json").read_text())["weights_sha256"])


@cache
def readers(root: Path) -> list[Reader]:
    """Every command that reads files, once for each kind of file."""
    audited, control, stopped, mnist = (
        sandbox.run_name(root, which) for which in ("audited", "control", "stopped", "mnist")
    )
    of_run, verdicts = (f"runs/{audited}/*",), (0, 1, 2, 3)
    kept = (f"runs/{audited}/audit.json",)
    with_control = (*of_run, *of_run, f"runs/{control}/*")
    every = [
        Reader(("audit", audited, "--json"), with_control, kept, verdicts, judged),
        Reader(("audit", audited, "--json"), kept, kept, verdicts, judged),
        Reader(("audit", audited, "--markdown", "page.md"), with_control, (*kept, "page.md"), verdicts, judged),
        Reader(
            ("audit", "--utility", "--json", "--data-dir", "data"),
            ("runs/*/*",),
            ("runs/*/audit.json",),
            verdicts,
            same_or_remarked,
        ),
        Reader(("show", "--json"), ("runs/*/*",), trusts=shown),
        Reader(("show", audited, "--json"), of_run, trusts=shown),
        Reader(("show", audited), of_run, trusts=shown),
        writes(("export", "--format", "csv", "--out", "rows.csv"), ("runs/*/*",), ("rows.csv",)),
        writes(("export", *sandbox.PLAN, "--out", "files"), ("paper/*/*",), ("files/*",)),
        writes(("figure", "snapshot-resmlp", *sandbox.PLAN, "--partial", "--out", "p.svg"), ("paper/*/*",), ("p.*",)),
        writes(("reproduce", "claims", *sandbox.PLAN, "--jobs", "0", "--out", "study"), ("paper/*/*",), ("study/*",)),
        Reader(tuple(sandbox.TRAIN["audited"]), of_run, of_run, trusts=shown),
        Reader(tuple(sandbox.TRAIN["stopped"]), (f"runs/{stopped}/*",), (f"runs/{stopped}/*",), (0, 1, 2), resumed),
        Reader((*sandbox.TRAIN["mnist"], "--data-dir", "data"), ("data/*.gz",), trusts=held_against_data),
        Reader((*sandbox.TRAIN["mnist"], "--data-dir", "data"), (f"runs/{mnist}/*",), (f"runs/{mnist}/*",)),
        Reader(("train", "--config", "config.toml", "--data", "cifar10"), ("config.toml",), codes=(2,)),
        Reader(("sweep", "study.toml", "--dry-run"), ("study.toml",)),
        Reader(("sweep", "study.toml", "--dry-run"), ("runs/*/*",)),
        Reader(("import", "paper.json", "--runs", "other"), ("paper.json",), ("other/*",)),
        Reader(("import", "paper.json"), ("paper.json", "runs/imported-*/*"), ("runs/imported-*",)),
        Reader(("data", "check", "mnist", "--data-dir", "data"), ("data/*.gz",)),
        Reader(("data", "check", "cifar10", "--data-dir", "data"), ("data/cifar-10-batches-py/*",), codes=(2,)),
        *(
            Reader(
                (
                    "audit",
                    "--model",
                    "model:build",
                    "--weights",
                    name,
                    "--taps",
                    "1",
                    "--data",
                    "digits",
                    "--samples",
                    "8",
                ),
                (name,),
                codes=verdicts,
            )
            for name in ("weights.safetensors", "weights.pt")
        ),
    ]
    return [reader for reader in every if all(any(root.glob(pattern)) for pattern in reader.reads)]


@dataclass(frozen=True)
class Flagged:
    """A command under flags of all kinds; ``bounds`` come last, and keep it from training, fetching or serving."""

    positionals: tuple[str, ...] = ()  # what to choose from, for each of them
    bounds: tuple[str, ...] = ()
    without: tuple[str, ...] = ()  # flags that are left out
    codes: tuple[int, ...] = (0, 2)
    chance: float = 1.0


FLAGGED: dict[str, Flagged] = {
    "train": Flagged(bounds=("--data", "cifar10"), codes=(2,)),
    "show": Flagged(("AUDITED", "STOPPED", "runs/AUDITED", "nothing", "")),
    "sweep": Flagged(("study.toml", "rules", "config.toml", "nothing", "data"), ("--dry-run",), without=("--address",)),
    "list": Flagged(("rules", "nets", "data", "x")),
    "data": Flagged(("mnist", "digits", "cifar10", "x"), without=("--url",)),
    "demo": Flagged(bounds=("--out", "config.toml"), codes=(2,)),  # where a folder is asked for, a file
    "audit": Flagged(("AUDITED", "STOPPED", "DIVERGED", "x"), without=("--with-controls",), codes=(0, 1, 2, 3)),
    "figure": Flagged(("snapshot-resmlp", "penalty-sweep", "x")),
    "reproduce": Flagged(("claims", "all", "snapshot-resmlp", "faeval", "x"), ("--jobs", "0")),
    "export": Flagged(),
    "import": Flagged(("paper.json", "config.toml", "data", "nothing")),
    "completion": Flagged(("bash", "zsh", "fish", "x")),
    "compare": Flagged(("rule=dfa", "rule=bp,seed=42", "AUDITED", "x", "")),
    "plot": Flagged(("gamma", "growth", "x", "")),
    "report": Flagged(without=("--audit",)),
    "serve": Flagged(bounds=("--port", "70000"), codes=(2,)),  # there is no such port
    "bench": Flagged(("train", "audit", "sweep", "protocol", "x"), ("--repeats", "0"), codes=(2,)),
}
# Inside the sandbox, all of them: a command may be asked to write there, and the fuzzer may run as root.
PATHS = (
    "runs", "paper", "data", "nothing", "new", "new/deep/er", "config.toml", "study.toml", "paper.json", "pipe",
    "device", "loop", "link.csv", "out.csv", "out.svg", "out.pdf", "out.md", ".", "", "-", "~", "x" * 300, "a\nb",
    "\udcff", "runs/AUDITED", "runs/AUDITED/rows.jsonl", "weights.pt", "weights.safetensors",
)  # fmt: skip
TEXTS = (
    "", "-", "--", "0", "1", "2", "-1", "3.5", "1e400", "nan", "inf", "9" * 40, "9" * 5000, "x", "é", "\udcff", "a\nb",
    "[1]", "digits", "mnist", "dfa", "resmlp", "cpu", "cuda", "cuda:7", "float64", "sgd", "study", "paper", "faudit-1",
    "faudit-4", "neurips", "icml", "rule=dfa", "seed=42", "status=done", "rule", "=", "seed=", "model:build",
    "model:word", "model:x", "nothing:x", "model:credit", "*", "1", "**", "blocks.*", "csv", "parquet", "faeval", "all",
    "true", "None", "local",
)  # fmt: skip


# Imported once here, not once in every fork. Nothing is computed in this process: its forks could not do so after it.
WARM = (
    "torch._dynamo", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "rich.table",
    "faudit.train", "faudit.audit.audit", "faudit.figures.style", "faudit.papers.faeval", "faudit.store.table",
    "faudit.watch.model", "faudit.sweep.check", "faudit.report.page",
)  # fmt: skip


@dataclass
class Case:
    """What was done, and what came of it."""

    number: int
    words: list[str]
    told: str = ""
    file: str = ""
    answer: Answer | None = None
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        code = "hung" if self.answer and self.answer.hung else self.answer.code if self.answer else "?"
        words = " ".join(repr(word[:60]) if not word.isprintable() or " " in word else word[:60] for word in self.words)
        said = "\n".join(f"    {line[:300]}" for line in (self.answer.err if self.answer else "").splitlines()[-12:])
        return f"case {self.number}: {words}\n  {self.told}\n  exit {code}: {'; '.join(self.problems)}\n{said}"


@cache
def template() -> Path:
    """The unspoiled sandbox of this process."""
    root = Path(tempfile.mkdtemp(prefix="faudit-fuzz-"))
    child = fork()
    if child == 0:
        code = 1
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            sandbox.make(root / "template")
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("the sandbox could not be made")
    return root / "template"


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the sandbox for one case."""
    with tempfile.TemporaryDirectory(dir=template().parent) as folder:
        shutil.copytree(template(), Path(folder) / "case", symlinks=True)
        yield Path(folder) / "case"


def snapshot(root: Path) -> Snapshot:
    """Every file and what it holds; of links where they point, of devices and pipes what they are."""
    found: Snapshot = {}
    for folder, names, files in os.walk(root):
        for name in [*names, *files]:
            path = Path(folder) / name
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                kind, holds = "link", os.readlink(path)
            elif stat.S_ISDIR(mode):
                kind, holds = "directory", ""
            elif stat.S_ISREG(mode):
                kind, holds = "file", hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                kind, holds = "special", str(os.lstat(path).st_rdev)
            found[str(path.relative_to(root))] = kind, holds
    return found


def changed(before: Snapshot, after: Snapshot, owns: Sequence[str]) -> Iterator[str]:
    """What a command did to files that it does not own, or may not do to any."""
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        owned = any(fnmatch.fnmatch(name, pattern) for pattern in (*owns, *OWNED))
        if name.endswith(".tmp") or ".tmp" in os.path.basename(name):
            yield f"left {name} behind"
        elif was and was[0] in ("link", "special"):
            yield f"{name} was a {was[0]} and is {now[0] if now else 'gone'}"
        elif not owned and (now is None or now[0] != "directory" or was is not None):
            yield f"{name} was {'changed' if was and now else 'removed' if was else 'made'}"


def general(answer: Answer, words: Sequence[str], codes: Sequence[int]) -> Iterator[str]:
    """What must hold of any answer."""
    if answer.hung:
        yield f"no answer after {answer.seconds:.0f} s"
        return
    if answer.code not in codes:
        yield f"expected an exit code of {list(codes)}, got {answer.code}"
    if PYTHON.search(answer.err):
        yield "Python shows through"
    lines = answer.err.splitlines()
    if len(lines) > LINES or any(len(line) > LONG for line in lines):
        yield f"{len(lines)} lines on stderr, the longest of {max(map(len, lines))} characters"
    if answer.code == 2 and not any(line.startswith("faudit: ") for line in lines):
        yield "exit code 2 without a word"
    if "--json" in words and answer.code in (0, 1, 3) and answer.out:
        try:
            json.loads(answer.out, parse_constant=lambda name: 1 / 0)
        except (ValueError, ZeroDivisionError):
            yield "stdout is no strict JSON"


@cache
def usual(words: tuple[str, ...]) -> Answer:
    """The answer to a command where nothing is spoiled."""
    with copied() as root:
        return forked(words, cwd=root, memory=MEMORY, patience=PATIENCE)


def spoiled_file(case: Case, root: Path, random: Random) -> tuple[Reader, Snapshot]:
    """Spoil one file that a command reads."""
    reader = random.choice(readers(template()))
    pattern = random.choice(reader.reads)
    files = sorted(path for path in root.glob(pattern) if path.is_file() and path.name != "lock")
    path = random.choice(files)
    way = random.choice(spoil.ways_for(path))
    case.words, case.file = list(reader.words), str(path.relative_to(root))
    try:
        case.told = f"{case.file}: {way(path, random)}"
    except (ValueError, LookupError, TypeError):  # nothing there to change in this way
        case.told = f"{case.file}: {spoil.truncate(path, random)}"
    return reader, snapshot(root)


def flags_of_all_kinds(case: Case, root: Path, random: Random) -> tuple[Reader, Snapshot]:
    """A command with flags and values of all kinds, by its parser."""
    from faudit.cli.main import parser

    specials(root)
    (commands,) = (one for one in parser()._actions if isinstance(one, argparse._SubParsersAction))
    name = random.choice(sorted(FLAGGED))
    flagged = FLAGGED[name]
    actions = [one for one in commands.choices[name]._actions if one.dest != "help"]
    words = [name]
    for action in [one for one in actions if not one.option_strings]:
        if name == "data" and action.dest == "action":
            words.append("check")
        elif random.random() < 0.9:
            words.append(random.choice(flagged.positionals))
    flags = [one for one in actions if one.option_strings and not set(one.option_strings) & set(flagged.without)]
    for action in random.sample(flags, min(len(flags), random.choice([0, 1, 1, 2, 3, 5]))):
        words += [action.option_strings[-1], *values_of(action, random)]
    if name in ("export", "figure") and random.random() < 0.8:
        words += ["--out", random.choice(PATHS)]
    words = [fill(word, root) for word in (*words, *flagged.bounds)]
    case.words, case.told = words, "flags"
    owned = owned_by(words)
    return Reader(tuple(words), (), owned, flagged.codes), snapshot(root)


def specials(root: Path) -> None:
    """Things that are no files, to be named as one."""
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to("loop")
    (root / "link.csv").symlink_to("target.csv")
    try:
        os.mknod(root / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))  # where what is written goes nowhere
    except PermissionError:
        os.mkfifo(root / "device")


def values_of(action: argparse.Action, random: Random) -> list[str]:
    """Words after a flag: mostly of its kind."""
    if action.nargs == 0:
        return []
    count = random.choice([1, 1, 2, 3]) if action.nargs in ("+", "*") else 1
    if action.choices and random.random() < 0.7:
        pool: Sequence[str] = [str(choice) for choice in action.choices]
    elif action.type is Path and random.random() < 0.95:
        pool = PATHS
    else:
        pool = TEXTS
    return [] if random.random() < 0.02 else [random.choice(pool) for _ in range(count)]


def fill(word: str, root: Path) -> str:
    for which in ("audited", "stopped", "diverged"):
        if which.upper() in word:
            word = word.replace(which.upper(), sandbox.run_name(root, which))
    return word


def owned_by(words: Sequence[str]) -> tuple[str, ...]:
    """What the flags of a command say it may write."""
    owned = ["runs/imported-*"] if words[0] == "import" else ["study*"] if words[0] == "reproduce" else []
    if words[0] == "audit":
        owned += ["*/audit.json"]
    for flag, value in pairwise(words):
        if flag in ("--out", "--markdown", "--latex") or (flag == "--runs" and words[0] == "import"):
            name = os.path.normpath(value) if value else "."
            owned += [
                name,
                f"{name}/*",
                os.path.splitext(name)[0] + ".json",
                "target.csv" if name == "link.csv" else name,
            ]
            owned += ["*"] if name == "." else []
    return tuple(owned)


def run_case(seed: int, number: int) -> Case:
    """One case from its seed and number alone."""
    random = Random(f"faudit {seed} {number}")
    case = Case(number, [])
    with copied() as root:
        make = spoiled_file if random.random() < 0.7 else flags_of_all_kinds
        reader, before = make(case, root, random)
        case.answer = forked(case.words, cwd=root, memory=MEMORY, patience=PATIENCE)
        case.problems += general(case.answer, case.words, reader.codes)
        case.problems += changed(before, snapshot(root), reader.owns)
        if case.file and not case.problems:
            case.problems += filter(None, [reader.trusts(case.answer, usual(reader.words), root, case.file)])
    return case


def main(argv: Sequence[str] | None = None) -> int:
    """Run cases, print those that fail and a summary; 1 if one failed."""
    asked = argparse.ArgumentParser(prog="scripts/fuzz", description=(__doc__ or "").split("\n\n")[0])
    asked.add_argument("cases", type=int, help="how many")
    asked.add_argument("--seed", type=int, default=0, help="of the whole series (default: 0)")
    asked.add_argument("--first", type=int, default=0, help="number of the first case (default: 0)")
    args = asked.parse_args(argv)
    for module in WARM:
        importlib.import_module(module)
    started, codes, commands, failed, slowest = time.monotonic(), Counter[Any](), Counter[str](), 0, 0.0
    try:
        for number in range(args.first, args.first + args.cases):
            case = run_case(args.seed, number)
            assert case.answer is not None
            codes["hung" if case.answer.hung else case.answer.code] += 1
            commands[case.words[0]] += 1
            slowest = max(slowest, case.answer.seconds)
            if case.problems:
                failed += 1
                print(f"{case}\n  again: scripts/fuzz 1 --seed {args.seed} --first {number}", flush=True)
    finally:
        if template.cache_info().currsize:
            shutil.rmtree(template().parent)
    took = time.monotonic() - started
    print(f"{args.cases} cases, seed {args.seed}: {failed} failed, {took:.0f} s, the slowest {slowest:.1f} s")
    print("exit codes: " + ", ".join(f"{code}: {count}" for code, count in sorted(codes.items(), key=str)))
    print("commands: " + ", ".join(f"{name}: {count}" for name, count in sorted(commands.items())))
    return 1 if failed else 0
