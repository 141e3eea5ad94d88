"""`gsx prepare`: write the source corpus of a dataset or of user data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gsx.errors import UsageError
from gsx.pipeline.commands.option_values import FORMATS, Options, is_given
from gsx.pipeline.commands.session import Session, StepResult

_SOURCES = ("smiles", "tu", "ogb", "pyg", "good", "nodes")
_SOURCE_OPTIONS = "--smiles FILE, --tu DIR|ZIP, --ogb DIR, --pyg FILE, --good DIR or --nodes FILE"
_LISTS = ("bases", "val_bases", "test_bases", "motifs")


def prepare(
    dataset: str | None, options: Options, session: Session, out: str | Path | None = None
) -> StepResult | None:
    """Write the source corpus of a dataset or of user data; return None for a dry run.

    ``options`` are those of the stage, one path per kind of user data, and ``format`` and ``envs``.
    """
    options = dict(options)
    file_format, envs = options.pop("file_format"), options.pop("envs")
    raw = options.get("raw")
    for name in _LISTS:
        if options[name] is not None:
            options[name] = _words(options[name])
    config = prepare_config(dataset, options)
    config |= {"formats": FORMATS[file_format], "raw": raw}
    if envs is not None:
        is_number = isinstance(envs, str) and envs.isdecimal() and len(envs) < 10
        config["environments"] = int(envs) if is_number else envs
    return session.run_stage("prepare", config, {}, out)


def prepare_config(dataset: str | None, options: Options) -> dict[str, Any]:
    """Return the options of the stage `prepare` for the options of the command."""
    sources = {name: options[name] for name in _SOURCES}
    given_sources = [name for name, file in sources.items() if file is not None]
    if options["edges"] is not None and options["nodes"] is None:
        raise UsageError("--edges needs --nodes FILE, the table of the nodes.")
    if len(given_sources) + (dataset is not None) > 1:
        raise UsageError(f"give exactly one source: a dataset, {_SOURCE_OPTIONS}")
    if not given_sources and dataset is None:
        raise UsageError(
            "Missing argument 'DATASET'. `gsx datasets` lists the datasets; for your own data use "
            f"{_SOURCE_OPTIONS}."
        )
    config: dict[str, Any] = {"dataset": given_sources[0] if given_sources else dataset}
    if given_sources:
        config["file"] = sources[given_sources[0]]
    for name, value in options.items():
        if name not in sources and is_given(value):
            config[name] = _parse_ratios(value) if name == "ratios" else value
    return config


def _words(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return the words of a list, which may be separated by commas."""
    words = value.split(",") if isinstance(value, str) else value
    return tuple(word.strip() for word in words)


def _parse_ratios(value: str | Sequence[float]) -> tuple[float, ...]:
    try:
        ratios = tuple(map(float, value.split("/") if isinstance(value, str) else value))
    except (TypeError, ValueError):
        ratios = ()
    if len(ratios) != 3:
        raise UsageError(f"--ratios takes three fractions such as 0.8/0.1/0.1; got `{value}`")
    return ratios
