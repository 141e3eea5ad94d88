"""Splits that can be evaluated: minimum per class, divided domains, and warnings."""

import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.errors import StageError, UsageError
from gsx.pipeline.plan import identity_of, make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.schema import Environment
from gsx.seeds import rng
from gsx.stages.prepare.split_methods import (
    ID_TEST,
    OOD_TEST,
    ClassMinimum,
    divide_domains,
    hold_out,
    hold_out_minimum,
    split_by_domain,
    split_counts,
)
from gsx.stages.prepare.synthetic import motif
from gsx.storage.corpora.split_warnings import environment_accuracy, label_shift_warnings
from tests.support.artifacts import gsx
from tests.support.user_data import build_splits, open_user_file


def write_molecules(tmp_path, rows, name="mine.csv"):
    """Write rows of (SMILES, active, group)."""
    text = "smiles,active,group\n" + "".join(f"{s},{y},{g}\n" for s, y, g in rows)
    path = tmp_path / name
    path.write_text(text)
    return path


def rare_actives(tmp_path):
    """200 alcohols of growing size; every tenth is active, but none of the largest 30."""
    rows = [("C" * (n + 1) + "O", int(n % 10 == 0 and n < 170), n // 20) for n in range(200)]
    return write_molecules(tmp_path, rows)


def label_counts(dataset):
    return {
        split: np.bincount(table.graph["label"], minlength=2).tolist()
        for split, table in build_splits(dataset).items()
    }


def test_test_splits_get_the_minimum_of_every_class(tmp_path):
    path = rare_actives(tmp_path)
    before = label_counts(open_user_file(path))
    assert before["ood_test"] == [20, 0]
    after = label_counts(open_user_file(path, min_test_per_class=4))
    assert after["ood_test"][1] >= 4
    assert after["id_test"][1] >= 4
    assert sum(map(sum, after.values())) == 200
    assert sum(after["ood_val"]) == pytest.approx(20, abs=1)
    larger = build_splits(open_user_file(path, min_test_per_class=4))
    assert larger["ood_test"].num_nodes.min() > larger["ood_val"].num_nodes.max()


def test_an_impossible_minimum_is_an_error(tmp_path):
    path = rare_actives(tmp_path)
    with pytest.raises(StageError, match=r"--min-test-per-class 9` would leave \d+ of 200 items"):
        open_user_file(path, min_test_per_class=9)
    with pytest.raises(StageError, match=r"cannot have 80 items of every class.*are missing"):
        open_user_file(path, min_test_per_class=80)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"min_test_per_class": 5, "rule": "random"}, "needs the rule `domain-sorted`"),
        ({"divide_domains": True, "rule": "quantile"}, "needs the rule `domain-sorted`"),
        ({"min_test_per_class": -1}, "must be at least 0"),
        ({"min_test_per_class": 5, "task": "regression"}, "needs one target with classes"),
    ],
)
def test_options_that_do_not_apply_are_rejected(tmp_path, options, match):
    with pytest.raises(UsageError, match=match):
        open_user_file(rare_actives(tmp_path), **options)


def one_large_group(tmp_path):
    """Groups a to z, and one with 70 of 200 molecules that is the last but one."""
    groups = ["abcdefghijklm"[n // 10] for n in range(130)] + ["y"] * 69 + ["z"]
    rows = [("C" * (n % 40 + 1) + "O", n % 2, groups[n]) for n in range(200)]
    return write_molecules(tmp_path, rows)


def test_large_domains_are_divided_on_request(tmp_path):
    path = one_large_group(tmp_path)
    options = {"domain": "column:group", "ratios": (0.7, 0.15, 0.1)}
    plain = open_user_file(path, **options)
    assert plain.split_sizes["ood_val"] == 1
    assert plain.split_sizes["ood_test"] == 0
    divided = open_user_file(path, divide_domains=True, **options)
    assert divided.split_sizes["ood_val"] == pytest.approx(30, abs=8)
    assert divided.split_sizes["ood_test"] == pytest.approx(30, abs=8)
    tables = build_splits(divided)
    y = divided.info.domains.index("group y")
    assert {split for split, table in tables.items() if (table.graph["domain_id"] == y).any()} > {
        "train", "ood_val",
    }  # fmt: skip


def test_missed_ratios_give_a_warning(tmp_path):
    path, options = (
        one_large_group(tmp_path),
        {"domain": "column:group", "ratios": (0.55, 0.2, 0.1)},
    )
    texts = [text for text in open_user_file(path, **options).warnings if "were requested" in text]
    assert texts == [
        "ood_val has 89 of 200 graphs (44.5%), and 20% were requested; the largest domain has 69 "
        "graphs. Use `--divide-domains`, other `--ratios` or another `--domain`",
        "ood_test has 1 of 200 graphs (0.5%), and 25% were requested; the largest domain has 69 "
        "graphs. Use `--divide-domains`, other `--ratios` or another `--domain`",
    ]
    divided = open_user_file(path, divide_domains=True, **options)
    assert not [text for text in divided.warnings if "were requested" in text]


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 9))
def test_divided_domains_keep_their_order_and_have_at_most_the_limit(domain, limit):
    domain = np.array(sorted(domain), dtype=np.int64)
    domain = np.unique(domain, return_inverse=True)[1]
    divided = divide_domains(domain, limit, rng(0, "tests"))
    assert np.bincount(divided).max(initial=0) <= limit
    for left, right in itertools.pairwise(domain):
        low, high = divided[domain == left], divided[domain == right]
        assert left == right or low.max() < high.min()
    whole = np.bincount(domain)[domain] <= limit
    assert len(np.unique(divided[whole])) == len(np.unique(domain[whole]))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 2)), min_size=1, max_size=80),
       st.integers(1, 4))  # fmt: skip
def test_minimum_holds_whenever_it_is_possible(items, count):
    domain = np.unique([domain for domain, _ in items], return_inverse=True)[1]
    label = np.array([label for _, label in items])
    minimum = ClassMinimum(label, count)
    result = split_by_domain(
        domain, descending=False, train=0.8, val=0.1, environments=2, minimum=minimum
    )
    test = np.flatnonzero(result.split == OOD_TEST)
    possible = not minimum.missing(np.arange(len(items))).any()
    reached = not minimum.missing(test).any()
    assert reached <= possible
    if possible and not reached:  # if even two domains are too few for training and ood_val
        assert minimum.missing(np.flatnonzero(domain > 1)).any()
    held_out = hold_out_minimum(hold_out(result.split, 1, rng(0, "x")), minimum, rng(0, "y"))
    assert sum(split_counts(held_out).values()) == len(items)
    moved = np.flatnonzero(held_out != result.split)
    assert set(held_out[moved].tolist()) <= {1, ID_TEST}


def test_defaults_are_not_part_of_the_key(tmp_path):
    path = rare_actives(tmp_path)
    text = f'[prepare]\ndataset = "smiles"\nfile = "{path}"\ntargets = ["active"]\n'

    def key(extra):
        (step,) = make_plan(parse_recipe(text + extra, "r.toml"))
        return identity_of(step, {}).key

    assert key("") == key("divide_domains = false\nmin_test_per_class = 0\n")
    assert key("") != key("min_test_per_class = 3\n")


def info_of(environments, **changes):
    info = motif.corpus_info("motif-size")
    named = tuple(Environment(id=number, name=f"e{number}") for number in range(environments))
    binary = {"task": "binary", "metric": "roc_auc", "outputs": ("active",), "domain": "size"}
    return msgspec.structs.replace(info, environments=named, **{**binary, **changes})


def groups_of(train, **others):
    rows = [{"split": "train", "env_id": n, "labels": labels} for n, labels in enumerate(train)]
    return rows + [{"split": s, "env_id": -1, "labels": labels} for s, labels in others.items()]


def test_environments_that_predict_the_class_give_a_warning():
    train = [[24, 115], [60, 80], [80, 60], [90, 50], [98, 32]]
    accuracy, chance = environment_accuracy(train)
    assert (round(accuracy, 2), chance) == (0.67, 0.5)
    (text,) = label_shift_warnings(info_of(5), groups_of(train))
    assert text.startswith("environments predict the class: knowing only the size group")
    assert "balanced accuracy of 67% (chance 50%)" in text
    even = [[50, 10], [55, 12], [45, 9]]
    assert list(label_shift_warnings(info_of(3), groups_of(even))) == []


def test_generated_environments_do_not_count():
    info = info_of(3)
    generated = Environment(id=2, name="whole graphs", origin="g_whole")
    info = msgspec.structs.replace(info, environments=(*info.environments[:2], generated))
    groups = groups_of([[50, 50], [50, 50], [0, 100]])
    assert list(label_shift_warnings(info, groups)) == []


def test_other_class_frequencies_of_ood_splits_give_a_warning():
    train = [[60, 60], [60, 60]]
    groups = groups_of(train, ood_val=[60, 52], ood_test=[101, 11])
    (text,) = label_shift_warnings(info_of(2), groups)
    assert text.startswith(
        "ood_test has other class frequencies than training: 90% of class `0`, and 50% in training"
    )
    small = groups_of(train, ood_test=[9, 1])
    assert list(label_shift_warnings(info_of(2), small)) == []
    regression = info_of(2, task="regression", metric="rmse")
    assert list(label_shift_warnings(regression, groups)) == []


def test_commands_print_the_warnings(tmp_path):
    rows = [("C" * (n + 1) + "O", int(n % 20 < n // 10), n) for n in range(200)]
    path = write_molecules(tmp_path, rows)
    result = gsx("prepare", "--smiles", path, "--target", "active", "--store", tmp_path, "--json")
    assert result.code == 0
    for text in (
        "environments predict the class",
        "ood_test has other class frequencies than training",
        "ood_test has only",
    ):
        assert text in result.err
    key = result.out.split('"key": "')[1][:12]
    described = gsx("describe", key, "--store", tmp_path)
    assert "environments predict the class" in described.err
    assert "ood_test has only" in described.err
    fixed = gsx("prepare", "--smiles", path, "--target", "active", "--store", tmp_path,
                "--min-test-per-class", "5", "--divide-domains")  # fmt: skip
    assert fixed.code == 0
