"""Assign splits, environments and domains to graphs or nodes, and build their columns.

Every dataset that is split by a domain uses ``assign_splits``: benchmarks with their published
rule, user data with the rule that the user selects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.provenance import source_provenance
from gsx.ragged import Array, Ints
from gsx.schema import ORIGINS, SPLITS, Environment
from gsx.stages.prepare.kmeans import GraphEmbedding, kmeans
from gsx.stages.prepare.split_methods import (
    ID_TEST,
    ID_VAL,
    TRAIN,
    ClassMinimum,
    DomainSplit,
    divide_domains,
    environments_by_domain,
    hold_out,
    hold_out_minimum,
    split_at_random,
    split_by_domain,
    split_by_quantile,
)
from gsx.table import GraphTable, Values

DomainKey = int | float | str
"""Value of a domain."""
MAX_RATIO_ERROR = 1 / 3
"""Largest relative difference between the requested and the actual size of an OOD split."""
PARTS_PER_SPLIT = 4
"""Divided domains have at most the requested size of the smallest OOD split, divided by this."""
SplitRuleKind = Literal["domain-sorted", "quantile", "random", "column"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRule:
    """Rule that assigns splits."""

    kind: SplitRuleKind = "domain-sorted"
    """Sorted by domain without dividing one; at quantiles; at random; or from a column."""
    descending: bool = False
    """Whether the highest domains are used for training instead of the lowest."""
    train: float
    """Share of all items in the training pool."""
    val: float
    """Share of all items in ``ood_val``."""
    held_out: float
    """Share moved from the training pool to each of ``id_val`` and ``id_test``."""
    held_out_of: Literal["all", "pool"] = "all"
    """Reference of ``held_out``: all items or the training pool."""
    id_test: bool = True
    """Whether to create ``id_test``."""
    environments: int
    """Maximum number of environments."""
    divide: bool = False
    """Whether domains that are larger than a part of an OOD split are divided."""
    min_per_class: int = 0
    """Smallest number of items of every class in ``id_test`` and ``ood_test``."""

    @property
    def test(self) -> float:
        """Share of all items in ``ood_test``."""
        return round(1 - self.train - self.val, 12)


@dataclass(frozen=True, slots=True, eq=False)
class ItemDomains:
    """Domain of every item."""

    keys: Sequence[DomainKey]
    """Value of each domain, in ascending order."""
    number: Ints
    """``[n]`` domain of every item, an index into ``keys``."""
    word: str
    """Unit or name of the domain: ``atoms``, ``tokens``, ``assay``, …"""
    numbered: bool = False
    """Whether to show indices instead of keys, because the keys are long."""

    def span(self, low: int, high: int) -> str:
        """Return the text of a range of domains."""
        if self.numbered:
            return f"{self.word} {low}..{high}"
        if low == high and isinstance(self.keys[low], str):
            return f"{self.word} {self.keys[low]}"
        return f"{self.word} {self.keys[low]}..{self.keys[high]}"

    def texts(self) -> tuple[str, ...]:
        """Return the text of every domain; empty if keys are not shown."""
        if self.numbered:
            return ()
        return tuple(
            f"{self.word} {key}" if isinstance(key, str) else f"{key} {self.word}"
            for key in self.keys
        )


@dataclass(frozen=True, slots=True, eq=False)
class SplitAssignment:
    """Splits, environments and domains of items."""

    split: Ints
    """``[n]`` code of the split."""
    env_id: Ints
    """``[n]`` environment of training and in-distribution held-out items, -1 elsewhere."""
    domains: ItemDomains
    names: tuple[str, ...] = ()
    """Names of environments that are not ranges of domains."""
    note: str = ""
    """Message for the user about inferred environments."""


def sorted_domains(keys: Sequence[DomainKey], word: str, *, numbered: bool = False) -> ItemDomains:
    """Return the domains of items; the distinct keys in ascending order are the domains."""
    distinct = sorted(set(keys))
    rank = {key: index for index, key in enumerate(distinct)}
    return ItemDomains(
        distinct, np.array([rank[key] for key in keys], dtype=np.int64), word, numbered
    )


def coded_domains(
    values: Sequence[DomainKey], code: Ints, word: str, *, numbered: bool = False
) -> ItemDomains:
    """Return the domains of items with keys ``values[code]``; equal values are one domain."""
    present = np.unique(code)
    domains = sorted_domains([values[index] for index in present.tolist()], word, numbered=numbered)
    return replace(domains, number=domains.number[np.searchsorted(present, code)])


def assign_splits(
    domains: ItemDomains,
    rule: SplitRule,
    generator: np.random.Generator,
    *,
    where: str,
    preset_split: Ints | None = None,
    label: Ints | None = None,
) -> SplitAssignment:
    """Assign splits by a rule; ``preset_split`` holds the splits for the rule ``column``.

    ``label`` ``[n]`` are the classes of items, for a minimum per class.
    """
    minimum = None if not rule.min_per_class else ClassMinimum(_classes(label), rule.min_per_class)
    domain_split = _split(domains, rule, generator, where, preset_split, minimum)
    split = domain_split.split
    pool = int((split == TRAIN).sum())
    size = int(rule.held_out * (len(split) if rule.held_out_of == "all" else pool))
    if preset_split is not None and np.isin(preset_split, (ID_VAL, ID_TEST)).any():
        size = 0
    tests = size if rule.id_test else 0
    if size + tests >= max(pool, 1):
        raise StageError(
            f"{where}: the training pool has {pool} items, and {size + tests} would be held out. "
            "Increase the training share or reduce the held-out share in `--ratios`."
        )
    held_out = hold_out(split, size, generator, test=tests)
    if minimum is not None:
        held_out = hold_out_minimum(held_out, minimum, generator) if tests else held_out
        _check_minimum(held_out, minimum, rule, where, tests=("id_test",) if tests else ())
    return SplitAssignment(held_out, domain_split.env_id, domains)


def _classes(label: Ints | None) -> Ints:
    if label is None or not (label >= 0).any():
        raise UsageError(
            "min_test_per_class needs one target with classes: `--task binary` or "
            "`--task classification`. Leave it out."
        )
    return label


def _check_minimum(
    split: Ints, minimum: ClassMinimum, rule: SplitRule, where: str, tests: tuple[str, ...]
) -> None:
    """Raise an error if a test split lacks a class, or if training has become too small."""
    _check_classes(split, minimum, "ood_test", where)
    pool = int(np.isin(split, (TRAIN, ID_VAL, ID_TEST)).sum())
    if 2 * pool < rule.train * len(split):
        raise StageError(
            f"{where}: `--min-test-per-class {minimum.count}` would leave {pool:,} of "
            f"{len(split):,} items for training, and {rule.train:.0%} were requested. Lower it, or "
            "use another `--domain` or `--direction`."
        )
    for name in tests:
        _check_classes(split, minimum, name, where)


def _check_classes(split: Ints, minimum: ClassMinimum, name: str, where: str) -> None:
    missing = minimum.missing(np.flatnonzero(split == SPLITS.index(name)))
    if missing.any():
        class_ = int(missing.argmax())
        raise StageError(
            f"{where}: {name} cannot have {minimum.count} items of every class: "
            f"{int(missing[class_])} of class number {class_} are missing. Lower "
            "`--min-test-per-class`."
        )


def ratio_warnings(assignment: SplitAssignment, rule: SplitRule, items: str) -> tuple[str, ...]:
    """Return a warning per OOD split whose size is far from what was requested.

    Domains are not divided, so that large domains and ties move the borders.
    """
    if rule.kind not in ("domain-sorted", "quantile"):
        return ()
    total = len(assignment.split)
    largest = int(np.bincount(assignment.domains.number).max(initial=0))
    warnings = []
    for name, requested in (("ood_val", rule.val), ("ood_test", rule.test)):
        count = int((assignment.split == SPLITS.index(name)).sum())
        if requested <= 0 or not count or _is_close(count / total, requested):
            continue
        if name == "ood_test" and rule.min_per_class and count > requested * total:
            continue  # as requested
        advice = "Use other `--ratios` or another `--domain`"
        if rule.kind == "domain-sorted" and not rule.divide:
            advice = "Use `--divide-domains`, other `--ratios` or another `--domain`"
        warnings.append(
            f"{name} has {count:,} of {total:,} {items} ({count / total:.1%}), and {requested:.0%} "
            f"were requested; the largest domain has {largest:,} {items}. {advice}"
        )
    return tuple(warnings)


def _is_close(ratio: float, requested: float) -> bool:
    return abs(ratio - requested) <= MAX_RATIO_ERROR * requested


def _split(
    domains: ItemDomains,
    rule: SplitRule,
    generator: np.random.Generator,
    where: str,
    preset_split: Ints | None,
    minimum: ClassMinimum | None,
) -> DomainSplit:
    domain, down, count = domains.number, rule.descending, rule.environments
    if rule.kind == "domain-sorted":
        if rule.divide:
            shares = [share for share in (rule.val, rule.test) if share > 0]
            limit = max(int(len(domain) * min(shares, default=1) / PARTS_PER_SPLIT), 1)
            domain = divide_domains(domain, limit, generator)
        return split_by_domain(
            domain, descending=down, train=rule.train, val=rule.val, environments=count,
            minimum=minimum,
        )  # fmt: skip
    if rule.kind == "random":
        return split_at_random(
            domain, generator, descending=down, train=rule.train, val=rule.val, environments=count
        )
    if rule.kind == "quantile":
        if any(isinstance(key, str) for key in domains.keys):
            raise StageError(
                f"{where}: the rule `quantile` needs a numeric domain, but {domains.word} is text. "
                "Use `--rule domain-sorted`."
            )
        values = np.array(domains.keys, dtype=np.float64)[domain]
        return split_by_quantile(
            domain, values, descending=down, train=rule.train,
            test=round(1 - rule.train - rule.val, 12), environments=count,
        )  # fmt: skip
    if preset_split is None:
        raise StageError(
            f"{where}: the rule `column` needs a split column. Add `--split-column NAME`."
        )
    pool = np.where(np.isin(preset_split, (ID_VAL, ID_TEST)), TRAIN, preset_split)
    return DomainSplit(
        preset_split, environments_by_domain(domain, pool, descending=down, environments=count)
    )


def infer_environments(
    assignment: SplitAssignment,
    sizes: Ints,
    embed: Callable[[Ints], GraphEmbedding],
    generator: np.random.Generator,
    word: str = "nodes",
) -> SplitAssignment:
    """Infer environments by clustering training items, ordered by mean size.

    ``embed`` returns the embedding of items; ``sizes`` ``[n]`` are counted in ``word``.
    """
    pool = np.flatnonzero(np.isin(assignment.split, (TRAIN, ID_VAL, ID_TEST)))
    embedding = embed(pool)
    group = kmeans(embedding.points, generator)
    sizes = sizes[pool]
    mean = np.bincount(group, weights=sizes) / np.bincount(group)
    group = np.argsort(np.argsort(mean, kind="stable"), kind="stable")[group]
    env_id = np.full(len(assignment.split), -1, dtype=np.int64)
    env_id[pool] = group
    names = tuple(
        f"group {number}: {sizes[group == number].min()}..{sizes[group == number].max()} {word}"
        for number in range(len(mean))
    )
    (most, share), *others = list(embedding.variance_between_groups(group).items())[:3]
    more = "".join(f", {name} ({variance:.0%})" for name, variance in others)
    blocks = list(embedding.parts)
    left = " and features of nodes" if len(blocks) > 2 else ""
    note = (
        f"environments were inferred: {len(mean)} clusters by {', '.join(blocks[:2])}{left}; "
        f"fraction of variance between clusters: {most} ({share:.0%}){more}"
    )
    return replace(assignment, env_id=env_id, names=names, note=note)


def environments_from_ids(assignment: SplitAssignment, env: Ints, where: str) -> SplitAssignment:
    """Use the environment ids of the files; test items get no environment."""
    pool = np.isin(assignment.split, (TRAIN, ID_VAL, ID_TEST))
    missing = np.flatnonzero((assignment.split == TRAIN) & (env < 0))
    if len(missing):
        raise StageError(
            f"{where}: {len(missing):,} training items have no environment, the first at row "
            f"{int(missing[0])}. Define environments with `--envs K` or `--envs infer`."
        )
    inside = pool & (env >= 0)
    ids, number = np.unique(env[inside], return_inverse=True)
    env_id = np.full(len(env), -1, dtype=np.int64)
    env_id[inside] = number
    return replace(assignment, env_id=env_id, names=tuple(f"environment {id_}" for id_ in ids))


def name_environments(
    env_id: Ints, domain: Ints, range_text: Callable[[int, int], str]
) -> tuple[Environment, ...]:
    """Name every environment after the lowest and highest domain of its items."""
    environments = []
    for number in range(int(env_id.max(initial=-1)) + 1):
        inside = domain[env_id == number]
        name = range_text(int(inside.min()), int(inside.max()))
        environments.append(Environment(id=number, name=name))
    return tuple(environments)


def environment_table(assignment: SplitAssignment) -> tuple[Environment, ...]:
    """Return the environments of an assignment, with names."""
    if assignment.names:
        return tuple(Environment(id=id_, name=text) for id_, text in enumerate(assignment.names))
    return name_environments(assignment.env_id, assignment.domains.number, assignment.domains.span)


def assignment_columns(
    graph_id: Ints, split: Ints, env_id: Ints, domain: Ints, y: Array, label: Array
) -> dict[str, Values]:
    """Return the graph columns of every corpus from arrays ``[G]`` and ``y`` ``[G, C]``."""
    return {
        "graph_id": graph_id.astype(np.int64),
        "split": split.astype(np.int8),
        "env_id": env_id.astype(np.int32),
        "domain_id": domain.astype(np.int32),
        "origin": np.full(len(graph_id), ORIGINS.index("source"), dtype=np.int8),
        "y": y.astype(np.float32),
        "label": label.astype(np.int32),
        **source_provenance(len(graph_id)),
    }


def split_slicer(table: GraphTable) -> Callable[[str, int, int], GraphTable]:
    """Return a function that returns graphs ``start:stop`` of a split of ``table``."""
    split = table.dense("graph", "split")

    def build(name: str, start: int, stop: int) -> GraphTable:
        return table.take(np.flatnonzero(split == SPLITS.index(name))[start:stop])

    return build


def empty_split_warnings(sizes: dict[str, int]) -> tuple[str, ...]:
    """Return a warning for every split without graphs."""
    return tuple(f"the split `{name}` is empty" for name, size in sizes.items() if not size)
