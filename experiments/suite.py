"""Experiment suites: tables of datasets and methods, and the ``gsx`` commands of their runs.

A suite is a TOML file in ``experiments/suites``:

- ``description``: what the suite measures;
- ``[defaults]``: values shared by all runs;
- ``[datasets.NAME]`` and ``[methods.NAME]``: values of one dataset or method. Values of a method
  take precedence over values of a dataset, and those over the defaults;
- ``[dataset_groups]``: names for lists of datasets (optional).

Every method is run on every dataset, or on the group named by its ``datasets``, with every seed in
``seeds``. These values become commands:

===================  ===========================================================================
``prepare``          options of ``gsx prepare DATASET``
``source``           instead of the dataset's name: arguments of ``gsx prepare`` for a file;
                     ``RAW/`` at the start of a path stands for ``GSX_RAW_DATA``
``augment``          arguments of ``gsx augment SOURCE``; the run's ``--seed`` is appended
``generate``         arguments of ``gsx generate SOURCE``; the run's ``--seed`` is appended
``pretrain_STAGE``   options of ``gsx pretrain STAGE SOURCE``, where ``generate`` needs its result
``train``            arguments of ``gsx train CORPUS``: the result file is the one ``gsx`` writes
``pretrain``         instead of ``train``: measure a pretraining stage (stage and its options)
``tune``             instead of ``train``: arguments of ``gsx tune DATASET``
``result``           path of the result file
``raw``              true if the dataset needs raw files (``GSX_RAW_DATA``)
``protocol``         true if the runs follow ``experiments/protocol.toml``, whose SHA-256 digest is
                     then added to the result file
===================  ===========================================================================

Other values are text for ``{name}`` placeholders. ``{dataset}``, ``{method}`` and ``{seed}`` are
always defined. ``{scaled_epochs}`` is ``epochs`` divided by ``epoch_size``, the number of graphs in
an epoch per graph of the source corpus, so that all methods of a dataset take the same number of
training steps. Words in capitals (``SOURCE``, ``CORPUS``, ``MASK``, ``EXTRACTOR``, ``BRIDGE``,
``GROUND_TRUTH``) stand for artifacts that earlier commands of the run build.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
SUITES = Path(__file__).parent / "suites"
KEYS = {"description", "defaults", "datasets", "dataset_groups", "methods"}
DEFAULTS = {
    "seeds": [0, 1, 2],
    "result": "results/{dataset}/{method}-{seed}.json",
    "prepare": "",
    "source": "",
    "augment": "",
    "generate": "",
    "pretrain_mask": "",
    "pretrain_extract": "",
    "pretrain_bridge": "",
    "raw": False,
    "protocol": False,
    "epoch_size": 1,
}
PRETRAINED = {"MASK": "mask", "EXTRACTOR": "extract", "BRIDGE": "bridge"}
"""Pretraining stages by the word that stands for their artifact."""
GROUND_TRUTH = ("python", "-m", "experiments.ground_truth_extractor")
EARLIER_DEFAULTS = {"--average": "0", "--select": "ood_val"}
"""Defaults of ``gsx train`` when the committed results were computed; a suite may set others.

Runs that follow the protocol have the present defaults.
"""
MAX_NESTING = 10
"""Maximum depth of references between values; deeper references are circular."""


class SuiteError(ValueError):
    """A suite file is invalid."""


@dataclass(frozen=True)
class Step:
    """One command of a run; ``artifact`` is the word that later commands use for its result."""

    artifact: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """One dataset, method and seed: the commands, and the result file (relative to the root)."""

    dataset: str
    method: str
    seed: int
    result: str
    steps: tuple[Step, ...]
    needs_raw_data: bool = False
    follows_protocol: bool = False

    @property
    def done(self) -> bool:
        """Whether the result file exists."""
        return (ROOT / self.result).exists()


@dataclass(frozen=True)
class Suite:
    """A parsed suite file."""

    name: str
    description: str
    defaults: Mapping[str, Any]
    datasets: Mapping[str, Mapping[str, Any]]
    methods: Mapping[str, Mapping[str, Any]]
    dataset_groups: Mapping[str, list[str]]

    def applies(self, method: str, dataset: str) -> bool:
        """Return whether a method is run on a dataset."""
        group = self.methods[method].get("datasets")
        return group is None or dataset in self.dataset_groups[group]

    def values(self, dataset: str, method: str) -> dict[str, Any]:
        """Return the values of a dataset and method, placeholders not yet replaced."""
        return {
            **DEFAULTS,
            **self.defaults,
            **self.datasets[dataset],
            **self.methods[method],
            "dataset": dataset,
            "method": method,
        }

    def runs(self) -> Iterator[Run]:
        """Yield all runs: by method, then seed, then dataset."""
        for method in self.methods:
            values = {
                dataset: self.values(dataset, method)
                for dataset in self.datasets
                if self.applies(method, dataset)
            }
            for seed in sorted({seed for value in values.values() for seed in value["seeds"]}):
                for value in values.values():
                    if seed in value["seeds"]:
                        yield _Values(self.name, {**value, "seed": seed}).run()


def suite_names() -> list[str]:
    """Return the names of all suites."""
    return sorted(path.stem for path in SUITES.glob("*.toml"))


def load_suite(name: str, folder: Path = SUITES) -> Suite:
    """Read a suite and check the names in it."""
    document = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
    document = {"description": "", "defaults": {}, "dataset_groups": {}, **document}
    if document.keys() != KEYS:
        raise SuiteError(f"{name}.toml: unknown or missing keys {sorted(document.keys() ^ KEYS)}.")
    suite = Suite(name=name, **document)
    for group, datasets in suite.dataset_groups.items():
        if unknown := set(datasets) - suite.datasets.keys():
            raise SuiteError(f"{name}.toml: group {group} has unknown datasets {sorted(unknown)}.")
    for method, values in suite.methods.items():
        if values.get("datasets") not in {None, *suite.dataset_groups}:
            raise SuiteError(f"{name}.toml: {method} names an unknown group of datasets.")
    return suite


class _Values:
    """Values of one run, with placeholders replaced on access."""

    def __init__(self, suite: str, values: dict[str, Any]) -> None:
        self.values = values
        self.where = f"{suite}.toml: {values['method']} on {values['dataset']}"
        if "epochs" in values:
            epoch_size = float(self.text("epoch_size"))
            values["scaled_epochs"] = max(round(values["epochs"] / epoch_size), 1)

    def text(self, name: str) -> str:
        """Return a value as text."""
        text = str(self.values[name])
        for _ in range(MAX_NESTING):
            if "{" not in text:
                return text
            try:
                text = text.format_map(self.values)
            except KeyError as error:
                raise SuiteError(f"{self.where}: `{name}` refers to undefined {error}.") from error
        raise SuiteError(f"{self.where}: `{name}` refers to itself.")

    def words(self, name: str) -> list[str]:
        """Return a value as words of a command line."""
        return shlex.split(self.text(name))

    def run(self) -> Run:
        """Return the run these values describe."""
        return Run(
            dataset=self.values["dataset"],
            method=self.values["method"],
            seed=self.values["seed"],
            result=self.text("result"),
            steps=tuple(self.steps()),
            needs_raw_data=self.values["raw"],
            follows_protocol=self.values["protocol"],
        )

    def steps(self) -> Iterator[Step]:
        """Yield the commands of the run; the last one produces the result."""
        dataset = self.values["dataset"]
        final = self.values.keys() & {"train", "pretrain", "tune"}
        if len(final) != 1:
            raise SuiteError(f"{self.where}: define one of `train`, `pretrain` and `tune`.")
        if "tune" in final:
            yield Step("", ("gsx", "tune", dataset, *self.words("tune")))
            return
        source = self.words("source") or [dataset]
        yield Step("SOURCE", ("gsx", "prepare", *source, *self.words("prepare")))
        if "pretrain" in final:
            stage, *options = self.words("pretrain")
            yield Step("", ("gsx", "pretrain", stage, "SOURCE", *options))
            return
        yield from self.augmentation()
        augmented = self.values["augment"] or self.values["generate"]
        corpus = "CORPUS" if augmented else "SOURCE"
        words = self.words("train")
        earlier = [
            word
            for option, value in EARLIER_DEFAULTS.items()
            if option not in words and not self.values["protocol"]
            for word in (option, value)
        ]
        yield Step("", ("gsx", "train", corpus, *words, *earlier))

    def augmentation(self) -> Iterator[Step]:
        """Yield the commands that build the augmented corpus."""
        seed = ("--seed", str(self.values["seed"]))
        if augment := self.words("augment"):
            yield Step("CORPUS", ("gsx", "augment", "SOURCE", *augment, *seed))
        if generate := self.words("generate"):
            for word in generate:
                if word == "GROUND_TRUTH":
                    yield Step(word, (*GROUND_TRUTH, "SOURCE"))
                if stage := PRETRAINED.get(word):
                    options = self.words(f"pretrain_{stage}")
                    yield Step(word, ("gsx", "pretrain", stage, "SOURCE", *options))
            yield Step("CORPUS", ("gsx", "generate", "SOURCE", *generate, *seed))
