"""The Motif datasets: the class is the motif, and the attached base graph shifts.

``motif-size`` and ``motif-base`` have covariate shift: motifs are independent of all else, and the
out-of-distribution splits have widths or bases that do not occur in training. An environment is a
width class or a base. Options replace bases, motifs and the direction of the shift; such a corpus
has its own name and its own random streams.

``motif-size-concept`` and ``motif-base-concept`` have concept shift: every split has the same three
domains (widths around 10, 40 and 70; wheel, tree and ladder), and what shifts is the probability
that the domain index equals the motif index. Otherwise the domain is one of the other two, with
equal probability. An environment is a level of that probability; training graphs draw their level
uniformly.

The graphs follow the distribution of the published benchmark, not its random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import UNSET

from gsx.errors import StageError, UsageError, did_you_mean
from gsx.names import name_problem, shown
from gsx.schema import CorpusInfo
from gsx.stages.prepare.dataset import resolve_options
from gsx.stages.prepare.synthetic.base_graphs import ALL_BASES, BASES
from gsx.stages.prepare.synthetic.motif_dataset import (
    BASE_WIDTHS,
    MotifDataset,
    descending,
    motif_family,
)
from gsx.stages.prepare.synthetic.motif_graphs import ALL_MOTIFS, MOTIFS
from gsx.table import GraphTable

_DATASETS = {
    dataset.name: dataset
    for dataset in (
        MotifDataset(name="motif-size", domain="size"),
        MotifDataset(name="motif-base", domain="base", widths=BASE_WIDTHS),
        MotifDataset(name="motif-size-concept", domain="size", concept=True, widths=(10, 40, 70)),
        MotifDataset(name="motif-base-concept", domain="base", concept=True, widths=BASE_WIDTHS),
    )
}
DATASETS = tuple(_DATASETS)
ALIASES: Mapping[str, str] = {
    "motif-basis": "motif-base",
    "motif-basis-concept": "motif-base-concept",
}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "motif-size": {"bases": BASES, "motifs": MOTIFS, "direction": "ascending", "name": ""},
    "motif-base": {
        "bases": BASES[:3],
        "val_bases": BASES[3:4],
        "test_bases": BASES[4:],
        "motifs": MOTIFS,
        "name": "",
    },
    "motif-size-concept": {},
    "motif-base-concept": {},
}
"""Options of each dataset, with the values of the published one."""
_BASE_OPTIONS = ("bases", "val_bases", "test_bases")


def split_sizes(name: str, num_graphs: int) -> dict[str, int]:
    """Distribute ``num_graphs`` over the splits of a published dataset."""
    return _dataset(name).split_sizes(num_graphs)


def corpus_info(name: str) -> CorpusInfo:
    """Describe the corpus of a published dataset."""
    return _dataset(name).info()


def build(
    name: str, split: str, start: int, stop: int, *, seed: int, first_graph_id: int
) -> GraphTable:
    """Return graphs ``start:stop`` of a split of a published dataset."""
    return _dataset(name).build(split, start, stop, seed=seed, first_graph_id=first_graph_id)


def _dataset(name: str) -> MotifDataset:
    if name not in _DATASETS:
        raise StageError(f"no Motif dataset `{name}`. {did_you_mean(name, DATASETS)}")
    return _DATASETS[name]


def _options(name: str, requested: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve the options; those of a published dataset are unset, so that its key has none."""
    defaults = _DEFAULTS[name]
    options = resolve_options(name, requested, defaults)
    for option in (*_BASE_OPTIONS, "motifs"):
        if option in options:
            catalog = ALL_MOTIFS if option == "motifs" else ALL_BASES
            options[option] = _names(name, option, options[option], catalog)
    changed = [key for key, value in options.items() if key != "name" and value != defaults[key]]
    if not changed:
        if options.get("name"):
            others = ", ".join(f"`{option}`" for option in defaults if option != "name")
            raise UsageError(
                f"{name}: the name of a published dataset is fixed. Remove `name`, or change "
                f"{others}."
            )
        return dict.fromkeys(requested, UNSET)
    _check_overlap(name, options)
    if len(options["motifs"]) < 2:
        raise UsageError(
            f"{name}: motifs are the classes, and there must be two or more (found "
            f"{len(options['motifs'])}). Known: {', '.join(ALL_MOTIFS)}."
        )
    options["name"] = options["name"] or f"{name}-custom"
    problem = name_problem(options["name"])
    if problem is not None:
        raise UsageError(f"the name {shown(options['name'])} {problem}")
    return options


def _names(
    dataset: str, option: str, names: Sequence[str], catalog: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the names of an option as a tuple; reject unknown and repeated ones."""
    for name in names:
        if name not in catalog:
            raise UsageError(f"{dataset}: {option}: no `{name}`. {did_you_mean(name, catalog)}")
        if list(names).count(name) > 1:
            raise UsageError(f"{dataset}: {option}: `{name}` is named twice. Name it once.")
    if not names:
        raise UsageError(f"{dataset}: {option} is empty. Known: {', '.join(catalog)}.")
    return tuple(names)


def _check_overlap(dataset: str, options: Mapping[str, Any]) -> None:
    """Reject a base that is in two splits."""
    owner: dict[str, str] = {}
    for option in _BASE_OPTIONS:
        for base in options.get(option, ()):
            if base in owner:
                raise UsageError(
                    f"{dataset}: `{base}` is in both {owner[base]} and {option}. Training, "
                    "validation and test bases must differ; name all three options."
                )
            owner[base] = option


def _variant(published: MotifDataset, options: Mapping[str, Any]) -> MotifDataset:
    """Return the dataset for resolved options: the published one, or one with a name of its own."""
    if not options:
        return published
    settings = ";".join(
        f"{key}={value if isinstance(value, str) else ','.join(value)}"
        for key, value in sorted(options.items())
        if key != "name"
    )
    dataset = replace(
        published,
        name=options["name"],
        base_name=published.name,
        settings=settings,
        motifs=tuple(options["motifs"]),
    )
    if published.domain == "size":
        dataset = replace(dataset, bases=tuple(options["bases"]))
        return descending(dataset) if options["direction"] == "descending" else dataset
    train, val, test = (tuple(options[option]) for option in _BASE_OPTIONS)
    bases = (*train, *val, *test)
    return replace(
        dataset,
        bases=bases,
        train=tuple(range(len(train))),
        ood_val=tuple(range(len(train), len(train) + len(val))),
        ood_test=tuple(range(len(train) + len(val), len(bases))),
    )


FAMILY = motif_family(_DATASETS, ALIASES, _options, _variant)
