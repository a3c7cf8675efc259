"""The directive `commands`: the reference of the command line, from the parser itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from faudit.cli.main import parser

LONG = 300  # characters from which a usage line only repeats the flags below it


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Commands(SphinxDirective):  # type: ignore[misc]  # its types are skipped
    """One section for each command, and one for each command below it."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        return [section(own) for _, own in below(parser())]


def below(own: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in own._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def section(own: argparse.ArgumentParser) -> nodes.section:
    found = nodes.section(ids=[nodes.make_id(own.prog)], names=[own.prog])
    found += nodes.title("", "", nodes.literal("", own.prog))
    if own.description:
        found += nodes.paragraph("", f"{own.description[:1].upper()}{own.description[1:].rstrip('.')}.")
    usage = " ".join(own.format_usage().removeprefix("usage: ").split())
    if len(usage) > LONG:
        usage = " ".join([own.prog, *(look(one) for one in own._actions if not one.option_strings), "[FLAGS]"])
    found += nodes.literal_block(usage, usage, language="none", classes=["usage"])
    for group in own._action_groups:
        actions = [one for one in group._group_actions if shown(one)]
        if actions:
            found += nodes.rubric("", (group.title or "").capitalize())
            found += nodes.definition_list("", *map(flag, actions), classes=["flags"])
    if own.epilog:
        found += epilog(own.epilog)
    found += [section(one) for _, one in below(own)]
    return found


def look(action: argparse.Action) -> str:
    """An argument as a usage line shows it."""
    alone = argparse.ArgumentParser(prog="", add_help=False)
    alone._add_action(action)
    return alone.format_usage().removeprefix("usage: ").strip()


def shown(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction)


def flag(action: argparse.Action) -> nodes.definition_list_item:
    """A flag or an argument as the help shows it."""
    helper = argparse.HelpFormatter("")
    names = helper._format_action_invocation(action)
    text = " ".join(helper._expand_help(action).split()) if action.help else ""
    if action.choices and not all(str(one) in text for one in action.choices):
        text += f": {', '.join(map(str, action.choices))}" if text else ", ".join(map(str, action.choices))
    term = nodes.term("", "", nodes.literal("", names))
    return nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", text)))


def epilog(text: str) -> list[nodes.Node]:
    """The end of a help text: its indented lines are commands."""
    lines = text.splitlines()
    commands = "\n".join(line.strip() for line in lines if line.startswith(" "))
    told = " ".join(line for line in lines if not line.startswith(" ")).strip()
    found: list[nodes.Node] = [nodes.rubric("", told.rstrip(":").capitalize())] if told else []
    return [*found, nodes.literal_block(commands, commands, language="sh")] if commands else found
