"""Names, import time and options of the API."""

import inspect
import subprocess
import sys
from typing import get_type_hints

import click
import pytest

import gsx
from gsx.api import corpora, models, options
from gsx.cli.main import cli
from gsx.stages.train.algorithms import ALGORITHMS
from gsx.stages.train.algorithms.options import OPTIONS

NOT_OPTIONS = {"as_json", "dry_run", "source", "corpus", "names", "models", "data", "dataset"}
"""Parameters of commands that decide how results are printed, and arguments."""
PYTHON_NAMES = {
    "option_bits": "options", "mask_key": "mask", "bridge_key": "bridge", "file_format": "format",
    "feature_ranges": "feature_range", "targets": "target", "feature_columns": "feature_column",
    "origins": "origin", "splits": "split", "learner": "algorithm", "layout": "to", "out": "out",
}  # fmt: skip
OWN = {
    "report": {"out": "path"}, "export": {"out": "path"}, "predict": {"out": None},
}  # fmt: skip
COMMANDS = (
    "prepare", "generate", "augment", "recommend", "train", "evaluate", "predict", "compare",
    "report", "export", "run", "describe",
)  # fmt: skip


def output(code):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_dir_lists_the_public_names_and_nothing_else():
    assert dir(gsx) == sorted(gsx.__all__)
    assert not [name for name in dir(gsx) if name.startswith("_") and name != "__version__"]


def test_every_public_name_exists_and_is_documented():
    for name in set(dir(gsx)) - {"__version__"}:
        assert getattr(gsx, name).__doc__, name


def test_the_stub_lists_the_public_names():
    from pathlib import Path

    stub = Path(gsx.__file__).with_name("__init__.pyi").read_text()
    listed = {line.rpartition(" as ")[2] for line in stub.splitlines() if " as " in line}
    assert listed | {"__version__"} == set(gsx.__all__)


def test_import_loads_no_library():
    code = (
        "import sys; before = set(sys.modules); import gsx; dir(gsx)\n"
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before} - {'gsx'}))\n"
        "print([n for n in ('torch', 'pyarrow', 'numpy', 'pandas', 'tqdm') if n in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split("\n")[:2] == ["[]", "[]"]


def test_public_functions_load_torch_only_when_they_need_it():
    code = (
        "import sys, gsx\n"
        "gsx.prepare, gsx.generate, gsx.train, gsx.evaluate, gsx.Store, gsx.report, gsx.compare\n"
        "print([n for n in ('torch', 'pyarrow', 'pandas') if n in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_a_misspelled_name_is_guessed():
    with pytest.raises(AttributeError, match=r"no attribute `prepair`\. Did you mean `prepare`\?"):
        gsx.prepair  # noqa: B018


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_the_command_is_one_of_the_function(name):
    command = cli.commands[name]
    params = command.get_params(click.Context(command))
    wanted = {param.name for param in params if isinstance(param, click.Option)}
    wanted -= {*NOT_OPTIONS, "_click_default_help", "help"}
    renamed = {OWN.get(name, {}).get(option, PYTHON_NAMES.get(option, option)) for option in wanted}
    accepted = set(inspect.signature(getattr(gsx, name)).parameters)
    assert renamed - {None} <= accepted
    others = {"progress", "quiet", "store", "force", "tag"} | set(PYTHON_NAMES)
    only_in_recipes = {"attributes", "augmented", "coverage", "environments", "formats",
                       "milestone", "schedule"}  # fmt: skip
    arguments = {param.name for param in params if isinstance(param, click.Argument)}
    positional = {"source", "corpus", "baseline", "method", "recipe", "path", "models", "data"}
    assert accepted - renamed <= others | only_in_recipes | arguments | positional


@pytest.mark.parametrize(
    ("words", "unset"),
    [
        (("generate", "SOURCE"), corpora._GENERATE_UNSET),
        (("augment", "SOURCE", "drop-edge"), corpora._AUGMENT_UNSET),
    ],
)
def test_the_engine_gets_the_defaults_of_the_command(words, unset):
    params = cli.commands[words[0]].make_context(words[0], list(words[1:])).params
    session = {"store", "tag", "force", "quiet", "as_json", "dry_run", "workers", "scheduler",
               "memory_limit", "dashboard", "out", "raw", "source", "method"}  # fmt: skip
    assert unset == {name: value for name, value in params.items() if name not in session}


def test_algorithms_and_their_options_are_typed():
    assert set(options.Algorithm.__args__) == {algorithm.name for algorithm in ALGORITHMS}
    hints = get_type_hints(options.TrainingOptions)
    for option in OPTIONS.values():
        assert hints[option.name] == option.type | None
    assert OPTIONS.keys() <= models.TRAINING_UNSET.keys()


def test_signatures_complete_options():
    parameters = inspect.signature(gsx.prepare).parameters
    assert next(iter(parameters)) == "dataset"
    assert parameters["num_graphs"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "options" not in parameters
