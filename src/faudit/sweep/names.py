"""The names of a study's experiments: a template over the settings, such as ``dfa, λ={penalty:g}``.

A template is untrusted text. Its braces may hold only settings and simple number formats. So it can neither read
attributes of an object nor produce a name of a billion characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Any

from faudit.config import RunConfig, all_keys, attribute, key, known, quoted
from faudit.registry import unknown

FORM = re.compile(r"\+?(\.\d)?[efg]")  # the allowed number formats


def template_problems(template: Any) -> list[str]:
    """The problems of a template."""
    if not isinstance(template, str) or not template.strip():
        return [f'expected text such as "dfa, λ={{penalty:g}}", got {quoted(template)}']
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        return [f"expected settings in braces, got {quoted(template)}: {error}"]
    return [problem for _, field, form, how in parsed for problem in field_problems(field, form or "", how=how)]


def field_problems(field: str | None, form: str, *, how: str | None) -> Iterator[str]:
    """The problems of one pair of braces. ``field`` is None for the text after the last pair."""
    if field is None:
        return
    if field not in all_keys():
        yield unknown("setting", field, all_keys())
    elif field == "seed":
        yield "expected no {seed}, since a name stands for the runs of all seeds"
    elif how or (form and not (is_number(field) and FORM.fullmatch(form))):
        written = f"{{{field}}}, or a form of it such as {{{field}:g}}" if is_number(field) else f"{{{field}}}"
        yield f"expected {written}, got {quoted(form or how)} in the braces"


def is_number(setting: str) -> bool:
    """Whether the setting with this key is a number."""
    value = known()[attribute(setting)].first.default
    return isinstance(value, int | float) and not isinstance(value, bool)


def named(template: str, config: RunConfig) -> str:
    """The name of a run's experiment. A setting that the run does not read is a dash."""
    words = []
    for text, field, form, _ in Formatter().parse(template):
        value = None if field is None else config.settings.get(attribute(field))
        words += [text, "" if field is None else "–" if value is None else format(value, form or "")]
    return "".join(words)


def mixed(experiments: Mapping[str, list[RunConfig]]) -> Iterator[str]:
    """The problems of names that stand for more than one experiment."""
    for name, (first, *others) in experiments.items():
        for setting in first.settings | first.stray:
            one, *values = ((config.settings | config.stray).get(setting) for config in (first, *others))
            other = next((value for value in values if value != one), None)
            if setting != "seed" and other is not None:
                both = f"{quoted(one)} and {quoted(other)}"
                told = f"expected runs that differ in the seed alone, got {key(setting)} {both}"
                yield f"name {name!r}: {told}. Add {{{key(setting)}}} to the name."
                break
