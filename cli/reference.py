"""Reference of the command line as Markdown, generated from the commands."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gsx.cli.main import cli

HEAD = """\
# Command line

Generated from the commands by `make docs`. `gsx COMMAND --help` prints the same text.
"""


def reference() -> str:
    """Return one section per command, in the order of `gsx --help`."""
    context = click.Context(cli, info_name="gsx", **cli.context_settings)
    return "\n".join([HEAD, *_sections(cli, context)])


def _sections(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _sections(command, click.Context(command, parent=context, info_name=name))
        elif command is not None:
            yield from _section(command, click.Context(command, parent=context, info_name=name))


def _section(command: click.Command, context: click.Context) -> Iterator[str]:
    name = context.command_path
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield f"## {name}\n\n```text\n{usage}\n```\n\n{_paragraphs(command.help or '')}\n"
    rows = [
        parameter.get_help_record(context)
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option)
    ]
    yield "| option | meaning |\n|---|---|"
    yield from (f"| `{_cell(row[0])}` | {_cell(row[1])} |" for row in rows if row is not None)
    yield ""


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
