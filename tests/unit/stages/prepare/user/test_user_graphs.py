"""A user's graphs in files of PyG and GOOD: read without trust, split, or refused."""

import contextlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, InMemoryDataset

from gsx.errors import StageError, UsageError
from gsx.stages.prepare.readers.pt_files import load_pt, read_pt_graphs
from gsx.stages.prepare.user import dataset as own
from gsx.stages.prepare.user import options as own_options
from tests.unit.stages.prepare.user.test_user_molecules import checked, source_of

COUNT = 40


def ring(number, **more):
    """A ring of ``number + 3`` nodes with words, values and a label."""
    nodes = number + 3
    at = torch.arange(nodes)
    ends = torch.stack([at, (at + 1) % nodes])
    return Data(
        x=torch.stack([at % 3, at % 2 + 4], dim=1),
        edge_index=torch.cat([ends, ends.flip(0)], dim=1),
        edge_attr=torch.full((2 * nodes, 1), number / 2),
        y=torch.tensor([number % 2]),
        **more,
    )


RINGS = [ring(number, env_id=number % 2, assay="pqrs"[number // 10]) for number in range(COUNT)]


def saved(tmp_path, value, name="mine.pt"):
    torch.save(value, tmp_path / name)
    return tmp_path / name


def same(left, right):
    return all(part.equals(checked(right)[split]) for split, part in checked(left).items())


def test_all_ways_of_saving_pyg_data_give_the_same_graphs(tmp_path):
    plain = source_of(saved(tmp_path, [graph.to_dict() for graph in RINGS], "a.pt"), "pyg")
    InMemoryDataset.save(RINGS, tmp_path / "b.pt")
    ways = [
        tmp_path / "b.pt",
        saved(tmp_path, RINGS, "c.pt"),
        saved(tmp_path, InMemoryDataset.collate(RINGS), "d.pt"),
    ]
    assert list(plain.split_sizes.values()) == [24, 4, 4, 4, 4]
    for path in ways:
        assert same(source_of(path, "pyg"), plain)
    test = checked(plain)["ood_test"]
    assert test.num_nodes.tolist() == [39, 40, 41, 42]
    assert plain.info.column("node_feat").features[1].words == ("4", "5")
    assert test.edge["edge_attr"].dtype == np.float32
    assert (plain.info.task, plain.info.outputs) == ("binary", ("y",))


def test_fields_of_graphs_may_be_domains_splits_and_environments(tmp_path):
    path = saved(tmp_path, [{**graph.to_dict(), "part": ("train", "val", "test")[n % 3]}
                            for n, graph in enumerate(RINGS)])  # fmt: skip
    source = source_of(path, "pyg", domain="column:assay", environments="given", rule="column",
                       split_column="part")  # fmt: skip
    assert list(source.split_sizes.values()) == [6, 4, 4, 13, 13]
    train = checked(source)["train"].graph
    assert (train["env_id"] == train["graph_id"] % 2).all()
    assert [each.name for each in source.info.environments] == ["environment 0", "environment 1"]
    assert source.info.domains == ("assay p", "assay q", "assay r", "assay s")
    assert (checked(source)["ood_test"].graph["env_id"] == -1).all()


def test_several_targets_and_missing_values_are_kept(tmp_path):
    label = [[float(n % 2), float("nan") if n % 3 else float(n % 2)] for n in range(COUNT)]
    graphs = [{**graph.to_dict(), "y": torch.tensor([label[n]])} for n, graph in enumerate(RINGS)]
    source = source_of(saved(tmp_path, graphs), "pyg")
    assert (source.info.task, source.info.outputs) == ("multitask", ("y_0", "y_1"))
    train = checked(source)["train"].graph
    assert (np.isnan(train["y"][:, 1]) == (train["graph_id"] % 3 > 0)).all()
    values = [{**graph.to_dict(), "y": torch.tensor(n / 3), "z": torch.tensor([n])}
              for n, graph in enumerate(RINGS)]  # fmt: skip
    source = source_of(saved(tmp_path, values), "pyg", targets=("z", "y"), task="regression")
    assert (source.info.task, source.info.outputs) == ("regression", ("z", "y"))
    assert source_of(saved(tmp_path, values), "pyg").info.task == "regression"


def test_nodes_without_features_get_a_one_and_are_counted_as_said(tmp_path):
    graphs = [Data(edge_index=graph.edge_index, y=graph.y, num_nodes=graph.num_nodes + 1)
              for graph in RINGS]  # fmt: skip
    source = source_of(saved(tmp_path, InMemoryDataset.collate(graphs)), "pyg")
    assert checked(source)["ood_test"].num_nodes.tolist() == [40, 41, 42, 43]
    bare = [{"edge_index": graph.edge_index, "y": graph.y} for graph in RINGS]
    source = source_of(saved(tmp_path, bare), "pyg")
    assert source.warnings[0].startswith("graphs have neither `x` nor `num_nodes`")
    assert set(checked(source)["train"].node["node_feat"].ravel()) == {1.0}


def one_graph(count=60, **more):
    at = np.arange(count)
    part = at % 5
    masks = ("train_mask", "id_val_mask", "id_test_mask", "val_mask", "test_mask")
    return Data(
        x=torch.eye(100)[torch.tensor(at)]
        if more.pop("bag", False)
        else torch.tensor(at % 2)[:, None] * 9.0 + torch.rand(count, 3),
        edge_index=torch.stack([torch.arange(count - 1), torch.arange(1, count)]),
        y=torch.tensor(at % 4),
        domain_id=torch.tensor(part),
        env_id=torch.tensor(np.where(part == 0, at // 30, -1)),
        **{name: torch.tensor(part == number) for number, name in enumerate(masks)},
        **more,
    )


def nodes_of(source):
    from gsx.validation import validate_table

    return validate_table(source.build("all", 0, 1), source.info)


def test_one_graph_with_labelled_nodes_is_told_from_many(tmp_path):
    by_domain = {"domain": "column:domain_id", "rule": "random"}
    source = source_of(saved(tmp_path, one_graph()), "pyg", **by_domain)
    assert (source.info.level, source.info.task) == ("node", "classification")
    assert np.bincount(nodes_of(source).node["node_split"]).tolist() == [36, 6, 6, 6, 6]
    source = source_of(saved(tmp_path, one_graph(bag=True).to_dict()), "pyg", domain="degree",
                       rule="column", environments="given")  # fmt: skip
    table = nodes_of(source)
    assert source.info.sparse
    assert table.node["node_split"].tolist() == [n % 5 for n in range(60)]
    assert sorted(set(table.node["node_env_id"].tolist())) == [-1, 0, 1]
    source = source_of(saved(tmp_path, one_graph()), "pyg", **by_domain, environments="infer")
    assert source.info.environments[0].name.startswith("group 0: ")
    with pytest.raises(StageError) as error:
        source_of(saved(tmp_path, one_graph()), "pyg", domain="size")
    assert str(error.value) == (
        "mine.pt: nodes are labelled; sort them by their degree (`--domain degree`) or a column."
    )


def test_labels_of_minus_one_are_a_class_and_it_is_said(tmp_path):
    said = (
        "-1 is taken for a class, which 20 nodes have; where it means that nothing is known, write "
        "NaN instead"
    )
    asked = {"domain": "column:domain_id", "rule": "random"}
    three, two = one_graph(), one_graph()
    three.y, two.y = torch.arange(60) % 3 - 1, torch.arange(60) % 2 * 2 - 1
    assert said in source_of(saved(tmp_path, three), "pyg", **asked).warnings
    source = source_of(saved(tmp_path, two), "pyg", **asked)  # a usual way to say no and yes
    assert source.info.outputs == ("-1", "1")
    assert not [each for each in source.warnings if "-1" in each]


def test_features_without_columns_are_none_and_still_count_nodes(tmp_path):
    def bare(graph):
        return {**graph.to_dict(), "x": torch.zeros(graph.num_nodes, 0)}

    bared = source_of(saved(tmp_path, [bare(graph) for graph in RINGS]), "pyg")
    counted = [
        {k: v for k, v in bare(g).items() if k != "x"} | {"num_nodes": g.num_nodes} for g in RINGS
    ]
    assert same(bared, source_of(saved(tmp_path, counted, "b.pt"), "pyg"))
    odd = saved(tmp_path, [*(graph.to_dict() for graph in RINGS[1:]), bare(RINGS[0])])
    with pytest.raises(StageError, match=r"`x` is not in every graph, or not as wide in each"):
        source_of(odd, "pyg")


def test_labelled_nodes_of_pyg_are_sorted_by_degree_where_nobody_says(tmp_path):
    star = torch.tensor(
        [[0] * 50 + [1] * 30 + [2] * 10, [*range(1, 51), *range(20, 50), *range(10)]]
    )
    data = one_graph(edge_attr=torch.ones(90, 2))
    data.edge_index = star
    source = source_of(saved(tmp_path, data), "pyg", environments=1)
    assert source.info.domain == "degree"
    assert "split by degree" in source.info.description
    assert source_of(saved(tmp_path, [ring(n) for n in range(30)]), "pyg").info.domain == "size"


def test_features_of_edges_between_labelled_nodes_are_not_dropped_in_silence(tmp_path):
    said = "features of edges (`edge_attr`) are not read: where nodes are labelled, edges have none"
    by_domain = {"domain": "column:domain_id", "rule": "random"}
    with_features = one_graph(edge_attr=torch.ones(59, 2))
    assert said in source_of(saved(tmp_path, with_features), "pyg", **by_domain).warnings
    assert said not in source_of(saved(tmp_path, one_graph()), "pyg", **by_domain).warnings


class Trap:
    def __reduce__(self):
        return (Path.touch, (Path("trapped"),))


def test_nothing_that_is_pickled_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in (Trap(), [{"x": Trap()}], {"split": {"a": Trap()}}):
        with pytest.raises(StageError) as error:
            load_pt(saved(tmp_path, value), "mine.pt")
        assert "mine.pt holds pickled objects, builtins.getattr, pathlib.Path" in str(error.value)
        assert "torch.save([graph.to_dict() for graph in dataset]" in str(error.value)
    assert not (tmp_path / "trapped").exists()


def changed(number, **fields):
    graphs = [graph.to_dict() for graph in RINGS]
    graphs[number].update(fields)
    return [{k: v for k, v in graph.items() if v is not None} for graph in graphs]


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        ([], {}, "mine.pt holds no graphs."),
        (3, {}, "mine.pt should hold a graph, a list of graphs or what InMemoryDataset saves, each "
         "graph a dict of tensors; found int. In Python, where the dataset can be loaded: "
         '`torch.save([graph.to_dict() for graph in dataset], "plain.pt")`.'),
        ([{"x": torch.ones(2, 1)}], {}, "mine.pt: graphs have no `edge_index`; they have x."),
        (changed(3, x=None), {},
         "mine.pt: `x` is not in every graph, or not as wide in each, or no tensor."),
        (changed(3, x=torch.ones(6, 3)), {},
         "mine.pt: `x` is not in every graph, or not as wide in each, or no tensor."),
        (changed(3, edge_index=torch.ones(3, 2)), {}, "mine.pt: `edge_index` must be two rows of "
         "whole numbers; found float32 of shape [3, 2]."),
        (changed(3, edge_index=torch.tensor([[0], [9]]), edge_attr=torch.ones(1, 1)), {},
         "mine.pt: graph 3 has an edge between nodes [0, 9], and 6 nodes, numbered from 0."),
        (changed(3, edge_attr=torch.ones(3, 1)), {},
         "mine.pt: `edge_attr` has 1,791 rows for 1,800 edges."),
        (changed(3, edge_attr=torch.full((12, 1), float("nan"))), {}, "mine.pt: `edge_attr`, row "
         "24: a feature is not finite (12 such rows). Clean the data; gsx does not guess "
         "features."),
        (changed(3, y=torch.tensor([1, 0])), {},
         "mine.pt: graphs have 1 to 2 values of `y`; expected as many for each."),
        (changed(3), {"targets": ("z",)}, "mine.pt: graphs have no numbers `z`. Known: `assay`, "
         "`edge_attr`, `edge_index`, `env_id`, `x`, `y`. Name what to learn with `--target NAME`."),
        (changed(3), {"domain": "column:asay"},
         "mine.pt has no column `asay`. Did you mean `assay`?"),
        (changed(3), {"domain": "scaffold"}, "mine.pt: no SMILES to find scaffolds by. Sort by "
         "`size`, or prepare the SMILES themselves: `gsx prepare --smiles FILE.csv`."),
        (changed(3), {"rule": "column"},
         "mine.pt names no splits. Say which field does: `--split-column NAME`."),
        (changed(3, env_id=-1), {"environments": "given", "rule": "random", "ratios": (1, 0, 0)},
         "mine.pt: 1 items to train on have no environment, the first at row 3. Cut environments "
         "anew: `--envs K` or `--envs infer`."),
        ([{"x": torch.ones(n, 1), "edge_index": torch.zeros(2, 0, dtype=torch.long),
           "y": torch.ones(n)} for n in (2, 3)], {}, "mine.pt: `y` is of nodes, in 2 graphs. gsx "
         "learns labels of nodes on one graph; put them into one."),
        (({"x": torch.ones(2, 1)}, {"x": torch.tensor([0, 3])}), {},
         "mine.pt: slices of `x` must rise from 0 to its 2 rows."),
        (({"x": torch.ones(2, 1)}, 5), {},
         "mine.pt should hold fields and slices; the second is int."),
        (changed(0, x=torch.ones(1).expand(1 << 40, 1)), {}, None),
        (changed(0, x=torch.eye(3).to_sparse()), {},
         "mine.pt: `x` is no plain tensor (torch.sparse_coo). Make it dense first."),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used_are_refused(tmp_path, value, options, message):
    with pytest.raises(StageError) as error:
        source_of(saved(tmp_path, value), "pyg", **options)
    expected = message or "mine.pt: `x` holds tensors that unpack to more than 268,435,456 bytes."
    assert str(error.value) == expected


def test_a_file_that_torch_did_not_save_is_refused(tmp_path):
    (tmp_path / "mine.pt").write_bytes(b"graphs")
    with pytest.raises(StageError, match=r"^mine.pt is not what torch.save writes since torch 1"):
        source_of(tmp_path / "mine.pt", "pyg")
    with zipfile.ZipFile(tmp_path / "mine.pt", "w") as archive:
        archive.writestr("a.txt", "b")
    with pytest.raises(StageError, match=r"^mine.pt cannot be read: "):
        source_of(tmp_path / "mine.pt", "pyg")


def good(tmp_path, shift="covariate"):
    """Write the rings in the layout of GOOD, one file per split."""
    folder = tmp_path / "GOODRing" / "size" / "processed"
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(("train", "id_val", "id_test", "val", "test")):
        graphs = [graph.clone() for graph in RINGS[8 * number : 8 * number + 8]]
        for graph in graphs:
            graph.domain_id = torch.LongTensor([graph.num_nodes])
            if number > 2:
                del graph.env_id
        torch.save(InMemoryDataset.collate(graphs), folder / f"{shift}_{part}.pt")
    return folder.parent


def test_a_folder_of_good_keeps_its_splits_and_environments(tmp_path):
    source = source_of(good(tmp_path), "good")
    assert list(source.split_sizes.values()) == [8, 8, 8, 8, 8]
    assert [each.name for each in source.info.environments] == ["environment 0", "environment 1"]
    assert (source.info.name, source.info.domain) == ("size", "domain_id")
    assert source.info.description.startswith("A user's own graphs, split by domain_id (column")
    assert checked(source)["id_val"].num_nodes.tolist() == list(range(11, 19))
    assert (checked(source)["ood_val"].graph["env_id"] == -1).all()
    assert checked(source)["train"].graph["env_id"].tolist() == [0, 1] * 4
    again = source_of(tmp_path / "GOODRing/size/processed", "good", rule="domain-sorted",
                      environments=2, domain="size")  # fmt: skip
    assert list(again.split_sizes.values()) == [24, 4, 4, 4, 4]


def test_a_folder_of_good_whose_nodes_are_labelled_is_read(tmp_path):
    folder = tmp_path / "GOODLine" / "word" / "processed"
    folder.mkdir(parents=True)
    torch.save(InMemoryDataset.collate([one_graph(domain="word")]), folder / "covariate.pt")
    source = source_of(folder.parent, "good")
    assert source.info.level == "node"
    assert nodes_of(source).node["node_split"].tolist() == [n % 5 for n in range(60)]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("GOODRing", {}, "{} has no file covariate_train.pt, nor covariate.pt. Name the folder of "
         "one domain, such as `--good {}/size`."),
        ("GOODRing/size", {"split_column": "concept"}, "{} has no file concept_train.pt, nor "
         "concept.pt. It has the shift covariate: `--split-column covariate`."),
        (".", {}, "{} has no file covariate_train.pt, nor covariate.pt. Name the folder of one "
         "domain, such as `--good {}/GOODRing/size`."),
    ],
)  # fmt: skip
def test_folders_that_are_not_those_of_a_domain_get_advice(tmp_path, name, options, message):
    good(tmp_path)
    path = tmp_path / name
    with pytest.raises(UsageError) as error:
        own.user_files("good", own_options.resolve_user_options("good", {"file": str(path), **options}))
    assert str(error.value) == message.format(path, path)


def test_files_of_good_that_do_not_belong_together_are_refused(tmp_path):
    folder = good(tmp_path)
    path = folder / "processed" / "covariate_val.pt"
    torch.save(InMemoryDataset.collate([Data(x=torch.ones(2, 2), y=torch.ones(1))] * 2), path)
    with pytest.raises(StageError) as error:
        source_of(folder, "good")
    assert str(error.value) == "covariate_val.pt has no `edge_index`; the other files have."


FUZZ = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=60,
)
TENSORS = st.sampled_from(
    [
        torch.ones(2, 1), torch.zeros(2, 0, dtype=torch.long), torch.tensor([[0, 1], [1, 0]]),
        torch.tensor([[0, 7], [-1, 0]]), torch.tensor(1.5), torch.tensor([float("nan")]),
        torch.tensor([1, 0]), torch.tensor([0, 1, 2]), torch.zeros(0), torch.tensor([True, False]),
        torch.ones(1, 2, 3), torch.tensor([1j]), torch.eye(2).to_sparse(),
        torch.ones(2, dtype=torch.bfloat16), None, 3, 1.0, "C", [1, 2], ["a", "b"], {"a": 1},
        1 << 70, torch.tensor([1 << 62]),
    ]
)  # fmt: skip
GRAPH = st.dictionaries(
    st.sampled_from(["x", "edge_index", "edge_attr", "y", "num_nodes", "env_id", "train_mask"]),
    TENSORS,
)


@given(st.lists(GRAPH, max_size=3) | GRAPH | st.tuples(GRAPH, GRAPH) | TENSORS)
@FUZZ
def test_whatever_tensors_a_file_holds_it_is_read_or_refused(tmp_path, value):
    with contextlib.suppress(StageError):
        checked(source_of(saved(tmp_path, value), "pyg", task="regression", environments=1))


@given(st.data())
@FUZZ
def test_whatever_bytes_of_a_file_are_lost_it_is_read_or_refused(tmp_path, data):
    torch.save([graph.to_dict() for graph in RINGS[:2]], buffer := io.BytesIO())
    content = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    (tmp_path / "mine.pt").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(StageError):
        read_pt_graphs(tmp_path / "mine.pt", "mine.pt")
