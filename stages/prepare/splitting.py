"""Where the items of raw files go: splits, environments, domains and the columns that say so.

Every dataset that is split by a domain comes through ``place``: those built in with the rule that
was published for them, a user's own with the rule the user names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gsx.errors import StageError
from gsx.provenance import source_provenance
from gsx.ragged import Array, Ints
from gsx.schema import ORIGINS, SPLITS, Environment
from gsx.stages.prepare.kmeans import Looks, cluster
from gsx.stages.prepare.split_methods import (
    ID_TEST,
    ID_VAL,
    TRAIN,
    DomainSplit,
    environments_of,
    hold_out,
    split_at_random,
    split_by_domain,
    split_by_quantile,
)
from gsx.table import GraphTable, Values

Key = int | float | str
"""What items are sorted by."""
RuleKind = Literal["domain-sorted", "quantile", "random", "column"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How items are split."""

    kind: RuleKind = "domain-sorted"
    """Sorted by domain without cutting one; at quantiles; at random; or as a column says."""
    descending: bool = False
    """Whether training has the highest domains, not the lowest."""
    train: float
    """Share of all items in the training pool."""
    val: float
    """Share of all items in ``ood_val``."""
    held_out: float
    """Share that goes from the pool to ``id_val``, and as much to ``id_test``."""
    held_out_of: Literal["all", "pool"] = "all"
    """What the share is of."""
    id_test: bool = True
    """Whether there is an ``id_test``."""
    environments: int
    """Parts that the pool is cut into, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """The domain of every item."""

    keys: Sequence[Key]
    """What each domain stands for, in ascending order."""
    number: Ints
    """``[n]`` domain of every item, a place in ``keys``."""
    word: str
    """What the keys count or name: ``atoms``, ``tokens``, ``assay``, …"""
    numbered: bool = False
    """Whether keys are too long to be shown, so that numbers stand for them."""

    def span(self, low: int, high: int) -> str:
        """Name a range of domains."""
        if self.numbered:
            return f"{self.word} {low}..{high}"
        if low == high and isinstance(self.keys[low], str):
            return f"{self.word} {self.keys[low]}"
        return f"{self.word} {self.keys[low]}..{self.keys[high]}"

    def texts(self) -> tuple[str, ...]:
        """Return what each domain stands for, where that can be shown."""
        if self.numbered:
            return ()
        return tuple(
            f"{self.word} {key}" if isinstance(key, str) else f"{key} {self.word}"
            for key in self.keys
        )


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where items went."""

    split: Ints
    """``[n]`` code of the split."""
    env_id: Ints
    """``[n]`` environment of training and held-out items, -1 elsewhere."""
    domains: Domains
    names: tuple[str, ...] = ()
    """Names of the environments where they are no ranges of domains."""
    note: str = ""
    """How environments were found, where a user should know."""


def domains_of(keys: Sequence[Key], word: str, *, numbered: bool = False) -> Domains:
    """Give every item the number of its key among the distinct keys in ascending order."""
    known = sorted(set(keys))
    rank = {key: number for number, key in enumerate(known)}
    return Domains(known, np.array([rank[key] for key in keys], dtype=np.int64), word, numbered)


def coded_domains(
    values: Sequence[Key], code: Ints, word: str, *, numbered: bool = False
) -> Domains:
    """Return the domains of items that have the keys ``values[code]``; equal values are one key."""
    present = np.unique(code)
    found = domains_of([values[at] for at in present.tolist()], word, numbered=numbered)
    return replace(found, number=found.number[np.searchsorted(present, code)])


def place(
    domains: Domains,
    rule: Rule,
    generator: np.random.Generator,
    *,
    where: str,
    given: Ints | None = None,
) -> Placed:
    """Split items by a rule; ``given`` is the split of each where a column says so."""
    placed = _split(domains, rule, generator, where, given)
    split = placed.split
    pool = int((split == TRAIN).sum())
    size = int(rule.held_out * (len(split) if rule.held_out_of == "all" else pool))
    if given is not None and np.isin(given, (ID_VAL, ID_TEST)).any():
        size = 0
    tests = size if rule.id_test else 0
    if size + tests >= max(pool, 1):
        raise StageError(
            f"{where}: {pool} items to train on, of which {size + tests} would be held out. "
            "Ask for a larger share to train on, or hold out less."
        )
    return Placed(hold_out(split, size, generator, test=tests), placed.env_id, domains)


def _split(
    domains: Domains, rule: Rule, generator: np.random.Generator, where: str, given: Ints | None
) -> DomainSplit:
    domain, down, count = domains.number, rule.descending, rule.environments
    if rule.kind == "domain-sorted":
        return split_by_domain(
            domain, descending=down, train=rule.train, val=rule.val, environments=count
        )
    if rule.kind == "random":
        return split_at_random(
            domain, generator, descending=down, train=rule.train, val=rule.val, environments=count
        )
    if rule.kind == "quantile":
        if any(isinstance(key, str) for key in domains.keys):
            raise StageError(
                f"{where}: the rule `quantile` needs a domain of numbers, and {domains.word} are "
                "text. Use `domain-sorted`."
            )
        values = np.array(domains.keys, dtype=np.float64)[domain]
        return split_by_quantile(
            domain, values, descending=down, train=rule.train,
            test=round(1 - rule.train - rule.val, 12), environments=count,
        )  # fmt: skip
    if given is None:
        raise StageError(f"{where}: the rule `column` needs a column that names the splits")
    pool = np.where(np.isin(given, (ID_VAL, ID_TEST)), TRAIN, given)
    return DomainSplit(given, environments_of(domain, pool, descending=down, environments=count))


def infer_environments(
    placed: Placed,
    sizes: Ints,
    embed: Callable[[Ints], Looks],
    generator: np.random.Generator,
    word: str = "nodes",
) -> Placed:
    """Make environments of training items that look alike, those of small items first.

    ``embed`` tells what items look like, ``sizes`` ``[n]`` are counted in ``word``.
    """
    pool = np.flatnonzero(np.isin(placed.split, (TRAIN, ID_VAL, ID_TEST)))
    looks = embed(pool)
    group = cluster(looks.points, generator)
    sizes = sizes[pool]
    mean = np.bincount(group, weights=sizes) / np.bincount(group)
    group = np.argsort(np.argsort(mean, kind="stable"), kind="stable")[group]
    env_id = np.full(len(placed.split), -1, dtype=np.int64)
    env_id[pool] = group
    names = tuple(
        f"group {number}: {sizes[group == number].min()}..{sizes[group == number].max()} {word}"
        for number in range(len(mean))
    )
    (most, share), *others = list(looks.told_apart(group).items())[:3]
    more = "".join(f", {name} ({part:.0%})" for name, part in others)
    known = list(looks.parts)
    left = " and features of nodes" if len(known) > 2 else ""
    note = (
        f"environments were inferred: {len(mean)} groups that look alike in "
        f"{', '.join(known[:2])}{left}; they differ most in {most} ({share:.0%} of its spread lies "
        f"between them){more}"
    )
    return replace(placed, env_id=env_id, names=names, note=note)


def given_environments(placed: Placed, env: Ints, where: str) -> Placed:
    """Take environments as files number them; those of items for testing are hidden."""
    pool = np.isin(placed.split, (TRAIN, ID_VAL, ID_TEST))
    lost = np.flatnonzero((placed.split == TRAIN) & (env < 0))
    if len(lost):
        raise StageError(
            f"{where}: {len(lost):,} items to train on have no environment, the first at row "
            f"{int(lost[0])}. Cut environments anew: `--envs K` or `--envs infer`."
        )
    inside = pool & (env >= 0)
    known, number = np.unique(env[inside], return_inverse=True)
    env_id = np.full(len(env), -1, dtype=np.int64)
    env_id[inside] = number
    return replace(placed, env_id=env_id, names=tuple(f"environment {each}" for each in known))


def name_environments(
    env_id: Ints, domain: Ints, say: Callable[[int, int], str]
) -> tuple[Environment, ...]:
    """Name every environment after the lowest and the highest domain of its items."""
    found = []
    for number in range(int(env_id.max(initial=-1)) + 1):
        inside = domain[env_id == number]
        found.append(Environment(id=number, name=say(int(inside.min()), int(inside.max()))))
    return tuple(found)


def environments(placed: Placed) -> tuple[Environment, ...]:
    """Name the environments of placed items."""
    if placed.names:
        return tuple(Environment(id=id_, name=text) for id_, text in enumerate(placed.names))
    return name_environments(placed.env_id, placed.domains.number, placed.domains.span)


def placed_columns(
    graph_id: Ints, split: Ints, env_id: Ints, domain: Ints, y: Array, label: Array
) -> dict[str, Values]:
    """Return the graph columns every corpus has, of arrays ``[G]`` and ``y`` ``[G, C]``."""
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


def builder(table: GraphTable) -> Callable[[str, int, int], GraphTable]:
    """Return what gives graphs ``start:stop`` of a split of ``table``."""
    split = table.dense("graph", "split")

    def build(name: str, start: int, stop: int) -> GraphTable:
        return table.take(np.flatnonzero(split == SPLITS.index(name))[start:stop])

    return build


def empty_split_warnings(sizes: dict[str, int]) -> tuple[str, ...]:
    """Warn of splits without graphs."""
    return tuple(f"the split `{name}` is empty" for name, size in sizes.items() if not size)
