"""PyG and GOOD files from users: safe loading, splits and error messages."""

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
from gsx.stages.prepare.readers.pt_files import PtFile, read_pt_graphs
from gsx.stages.prepare.user.dataset import user_files
from gsx.stages.prepare.user.options import resolve_user_options
from gsx.validation import validate_table
from tests.support.pyg_graphs import NUM_RINGS, RINGS, ring, save_pt
from tests.support.user_data import build_splits, equal_graphs, open_user_file


def test_all_pyg_file_layouts_give_equal_graphs(tmp_path):
    plain = open_user_file(save_pt(tmp_path, [graph.to_dict() for graph in RINGS], "a.pt"), "pyg")
    InMemoryDataset.save(RINGS, tmp_path / "b.pt")
    paths = [
        tmp_path / "b.pt",
        save_pt(tmp_path, RINGS, "c.pt"),
        save_pt(tmp_path, InMemoryDataset.collate(RINGS), "d.pt"),
    ]
    assert list(plain.split_sizes.values()) == [24, 4, 4, 4, 4]
    for path in paths:
        assert equal_graphs(open_user_file(path, "pyg"), plain)
    test = build_splits(plain)["ood_test"]
    assert test.num_nodes.tolist() == [39, 40, 41, 42]
    assert plain.info.column("node_feat").features[1].words == ("4", "5")
    assert test.edge["edge_attr"].dtype == np.float32
    assert (plain.info.task, plain.info.outputs) == ("binary", ("y",))


def test_fields_provide_domains_splits_and_environments(tmp_path):
    path = save_pt(tmp_path, [{**graph.to_dict(), "part": ("train", "val", "test")[n % 3]}
                            for n, graph in enumerate(RINGS)])  # fmt: skip
    dataset = open_user_file(
        path, "pyg", domain="column:assay", environments="given", rule="column", split_column="part"
    )
    assert list(dataset.split_sizes.values()) == [6, 4, 4, 13, 13]
    train = build_splits(dataset)["train"].graph
    assert (train["env_id"] == train["graph_id"] % 2).all()
    assert [environment.name for environment in dataset.info.environments] == [
        "environment 0",
        "environment 1",
    ]
    assert dataset.info.domains == ("assay p", "assay q", "assay r", "assay s")
    assert (build_splits(dataset)["ood_test"].graph["env_id"] == -1).all()


def test_several_targets_and_missing_values_are_kept(tmp_path):
    label = [[float(n % 2), float("nan") if n % 3 else float(n % 2)] for n in range(NUM_RINGS)]
    graphs = [{**graph.to_dict(), "y": torch.tensor([label[n]])} for n, graph in enumerate(RINGS)]
    dataset = open_user_file(save_pt(tmp_path, graphs), "pyg")
    assert (dataset.info.task, dataset.info.outputs) == ("multitask", ("y_0", "y_1"))
    train = build_splits(dataset)["train"].graph
    assert (np.isnan(train["y"][:, 1]) == (train["graph_id"] % 3 > 0)).all()
    values = [{**graph.to_dict(), "y": torch.tensor(n / 3), "z": torch.tensor([n])}
              for n, graph in enumerate(RINGS)]  # fmt: skip
    dataset = open_user_file(
        save_pt(tmp_path, values), "pyg", targets=("z", "y"), task="regression"
    )
    assert (dataset.info.task, dataset.info.outputs) == ("regression", ("z", "y"))
    assert open_user_file(save_pt(tmp_path, values), "pyg").info.task == "regression"


def test_nodes_without_features_get_a_constant_and_use_num_nodes(tmp_path):
    graphs = [Data(edge_index=graph.edge_index, y=graph.y, num_nodes=graph.num_nodes + 1)
              for graph in RINGS]  # fmt: skip
    dataset = open_user_file(save_pt(tmp_path, InMemoryDataset.collate(graphs)), "pyg")
    assert build_splits(dataset)["ood_test"].num_nodes.tolist() == [40, 41, 42, 43]
    bare = [{"edge_index": graph.edge_index, "y": graph.y} for graph in RINGS]
    dataset = open_user_file(save_pt(tmp_path, bare), "pyg")
    assert dataset.warnings[0].startswith("graphs have neither `x` nor `num_nodes`")
    assert set(build_splits(dataset)["train"].node["node_feat"].ravel()) == {1.0}


def node_graph(count=60, **more):
    index = np.arange(count)
    group = index % 5
    masks = ("train_mask", "id_val_mask", "id_test_mask", "val_mask", "test_mask")
    return Data(
        x=torch.eye(100)[torch.tensor(index)]
        if more.pop("bag", False)
        else torch.tensor(index % 2)[:, None] * 9.0 + torch.rand(count, 3),
        edge_index=torch.stack([torch.arange(count - 1), torch.arange(1, count)]),
        y=torch.tensor(index % 4),
        domain_id=torch.tensor(group),
        env_id=torch.tensor(np.where(group == 0, index // 30, -1)),
        **{name: torch.tensor(group == number) for number, name in enumerate(masks)},
        **more,
    )


def build_nodes(dataset):
    return validate_table(dataset.build("all", 0, 1), dataset.info)


def test_single_graph_with_node_labels_is_node_level(tmp_path):
    by_domain = {"domain": "column:domain_id", "rule": "random"}
    dataset = open_user_file(save_pt(tmp_path, node_graph()), "pyg", **by_domain)
    assert (dataset.info.level, dataset.info.task) == ("node", "classification")
    assert np.bincount(build_nodes(dataset).node["node_split"]).tolist() == [36, 6, 6, 6, 6]
    path = save_pt(tmp_path, node_graph(bag=True).to_dict())
    dataset = open_user_file(path, "pyg", domain="degree", rule="column", environments="given")
    table = build_nodes(dataset)
    assert dataset.info.sparse
    assert table.node["node_split"].tolist() == [n % 5 for n in range(60)]
    assert sorted(set(table.node["node_env_id"].tolist())) == [-1, 0, 1]
    dataset = open_user_file(
        save_pt(tmp_path, node_graph()), "pyg", **by_domain, environments="infer"
    )
    assert dataset.info.environments[0].name.startswith("group 0: ")
    with pytest.raises(StageError) as error:
        open_user_file(save_pt(tmp_path, node_graph()), "pyg", domain="size")
    assert str(error.value) == (
        "mine.pt: nodes are labelled, and size is not a domain of nodes. Use `--domain degree` or "
        "`--domain column:NAME`."
    )


def test_label_minus_one_is_a_class_with_a_warning(tmp_path):
    warning = "20 nodes have the label -1, which is read as a class; use NaN for missing labels"
    options = {"domain": "column:domain_id", "rule": "random"}
    three, two = node_graph(), node_graph()
    three.y, two.y = torch.arange(60) % 3 - 1, torch.arange(60) % 2 * 2 - 1
    assert warning in open_user_file(save_pt(tmp_path, three), "pyg", **options).warnings
    dataset = open_user_file(
        save_pt(tmp_path, two), "pyg", **options
    )  # a common encoding of binary labels
    assert dataset.info.outputs == ("-1", "1")
    assert not [text for text in dataset.warnings if "-1" in text]


def test_empty_feature_matrix_still_counts_nodes(tmp_path):
    def without_features(graph):
        return {**graph.to_dict(), "x": torch.zeros(graph.num_nodes, 0)}

    empty = open_user_file(save_pt(tmp_path, [without_features(graph) for graph in RINGS]), "pyg")
    counted = [
        {k: v for k, v in without_features(g).items() if k != "x"} | {"num_nodes": g.num_nodes}
        for g in RINGS
    ]
    assert equal_graphs(empty, open_user_file(save_pt(tmp_path, counted, "b.pt"), "pyg"))
    odd = save_pt(tmp_path, [*(graph.to_dict() for graph in RINGS[1:]), without_features(RINGS[0])])
    with pytest.raises(StageError, match=r"`x` must be a tensor of the same width in every graph"):
        open_user_file(odd, "pyg")


def test_default_domain_of_pyg_nodes_is_degree(tmp_path):
    star = torch.tensor(
        [[0] * 50 + [1] * 30 + [2] * 10, [*range(1, 51), *range(20, 50), *range(10)]]
    )
    data = node_graph(edge_attr=torch.ones(90, 2))
    data.edge_index = star
    dataset = open_user_file(save_pt(tmp_path, data), "pyg", environments=1)
    assert dataset.info.domain == "degree"
    assert "split by degree" in dataset.info.description
    assert (
        open_user_file(save_pt(tmp_path, [ring(n) for n in range(30)]), "pyg").info.domain == "size"
    )


def test_ignored_edge_features_give_a_warning(tmp_path):
    warning = "edge features (`edge_attr`) are ignored: node-level corpora have none"
    by_domain = {"domain": "column:domain_id", "rule": "random"}
    with_features = node_graph(edge_attr=torch.ones(59, 2))
    assert warning in open_user_file(save_pt(tmp_path, with_features), "pyg", **by_domain).warnings
    assert (
        warning not in open_user_file(save_pt(tmp_path, node_graph()), "pyg", **by_domain).warnings
    )


class Trap:
    def __reduce__(self):
        return (Path.touch, (Path("trapped"),))


def test_pickled_code_is_not_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in (Trap(), [{"x": Trap()}], {"split": {"a": Trap()}}):
        with pytest.raises(StageError) as error:
            PtFile(save_pt(tmp_path, value), "mine.pt")
        assert "mine.pt contains pickled objects (builtins.getattr, pathlib.Path" in str(
            error.value
        )
        assert "torch.save([graph.to_dict() for graph in dataset]" in str(error.value)
    assert not (tmp_path / "trapped").exists()


def rings_with(number, **fields):
    graphs = [graph.to_dict() for graph in RINGS]
    graphs[number].update(fields)
    return [{k: v for k, v in graph.items() if v is not None} for graph in graphs]


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        ([], {}, "mine.pt contains no graphs."),
        (3, {},
         "mine.pt: expected a graph, a list of graphs or the output of InMemoryDataset.save, "
         "with each graph a dict of tensors (found int). Convert the dataset in Python: "
         '`torch.save([graph.to_dict() for graph in dataset], "plain.pt")`.'),
        ([{"x": torch.ones(2, 1)}], {}, "mine.pt: graphs have no `edge_index` (found fields: x)."),
        (rings_with(3, x=None), {},
         "mine.pt: `x` must be a tensor of the same width in every graph. Add it to the graphs "
         "without it, or remove it from all of them."),
        (rings_with(3, x=torch.ones(6, 3)), {},
         "mine.pt: `x` must be a tensor of the same width in every graph. Add it to the graphs "
         "without it, or remove it from all of them."),
        (rings_with(3, edge_index=torch.ones(3, 2)), {}, "mine.pt: `edge_index` must be an integer "
         "tensor of shape [2, E] (found float32 of shape [3, 2])."),
        (rings_with(3, edge_index=torch.tensor([[0], [9]]), edge_attr=torch.ones(1, 1)), {},
         "mine.pt: graph 3 has an edge between nodes [0, 9], but only 6 nodes. Node ids of a graph "
         "start at 0."),
        (rings_with(3, edge_attr=torch.ones(3, 1)), {},
         "mine.pt: `edge_attr` has 1,791 rows for 1,800 edges."),
        (rings_with(3, edge_attr=torch.full((12, 1), float("nan"))), {},
         "mine.pt: `edge_attr`, row "
         "24: a feature is not finite (12 rows in total). Replace NaN and infinite values; gsx "
         "does not impute features."),
        (rings_with(3, y=torch.tensor([1, 0])), {},
         "mine.pt: graphs have 1 to 2 values of `y`; expected the same number for every graph."),
        (rings_with(3), {"targets": ("z",)},
         "mine.pt: graphs have no numeric field `z`. Known: `assay`, "
         "`edge_attr`, `edge_index`, `env_id`, `x`, `y`. Select the target with `--target "
         "NAME`."),
        (rings_with(3), {"domain": "column:asay"},
         "mine.pt has no column `asay`. Did you mean `assay`?"),
        (rings_with(3), {"domain": "scaffold"},
         "mine.pt: the domain `scaffold` needs SMILES of graphs. "
         "Use `--domain size`, or prepare a table of SMILES: `gsx prepare --smiles FILE.csv`."),
        (rings_with(3), {"rule": "column"},
         "mine.pt contains no splits. Select a field with splits: `--split-column NAME`."),
        (rings_with(3, env_id=-1), {"environments": "given", "rule": "random", "ratios": (1, 0, 0)},
         "mine.pt: 1 training items have no environment, the first at row 3. Define environments "
         "with `--envs K` or `--envs infer`."),
        ([{"x": torch.ones(n, 1), "edge_index": torch.zeros(2, 0, dtype=torch.long),
           "y": torch.ones(n)} for n in (2, 3)], {}, "mine.pt: `y` has one value per node in "
         "2 graphs. Node labels need a single graph; merge the graphs into one."),
        (({"x": torch.ones(2, 1)}, {"x": torch.tensor([0, 3])}), {},
         "mine.pt: slices of `x` must increase from 0 to the number of rows, 2."),
        (({"x": torch.ones(2, 1)}, 5), {},
         "mine.pt: expected fields and a dict of slices (found int as the second element). Convert "
         'the dataset in Python: `torch.save([graph.to_dict() for graph in dataset], "plain.pt")'
         "`."),
        (rings_with(0, x=torch.ones(1).expand(1 << 40, 1)), {}, None),
        (rings_with(0, x=torch.eye(3).to_sparse()), {},
         "mine.pt: `x` is not a dense real tensor (layout torch.sparse_coo). Convert it with "
         "`.to_dense()` and save the file again."),
    ],
)  # fmt: skip
def test_invalid_pyg_files_are_rejected(tmp_path, value, options, message):
    with pytest.raises(StageError) as error:
        open_user_file(save_pt(tmp_path, value), "pyg", **options)
    expected = (
        message
        or "mine.pt: `x` contains tensors that expand to more than 134,217,728 bytes. "
        "Set GSX_LIMIT_EXPANDED_BYTES to a larger number if you trust the file."
    )
    assert str(error.value) == expected


def test_file_not_written_by_torch_is_rejected(tmp_path):
    (tmp_path / "mine.pt").write_bytes(b"graphs")
    with pytest.raises(StageError, match=r"^mine.pt was not written by torch.save of torch 1"):
        open_user_file(tmp_path / "mine.pt", "pyg")
    with zipfile.ZipFile(tmp_path / "mine.pt", "w") as archive:
        archive.writestr("a.txt", "b")
    with pytest.raises(StageError, match=r"^mine.pt cannot be read: "):
        open_user_file(tmp_path / "mine.pt", "pyg")


def write_good(tmp_path, shift="covariate"):
    """Write the rings in the layout of GOOD, one file per split."""
    folder = tmp_path / "GOODRing" / "size" / "processed"
    folder.mkdir(parents=True, exist_ok=True)
    for number, split in enumerate(("train", "id_val", "id_test", "val", "test")):
        graphs = [graph.clone() for graph in RINGS[8 * number : 8 * number + 8]]
        for graph in graphs:
            graph.domain_id = torch.LongTensor([graph.num_nodes])
            if number > 2:
                del graph.env_id
        torch.save(InMemoryDataset.collate(graphs), folder / f"{shift}_{split}.pt")
    return folder.parent


def test_good_folder_keeps_splits_and_environments(tmp_path):
    dataset = open_user_file(write_good(tmp_path), "good")
    assert list(dataset.split_sizes.values()) == [8, 8, 8, 8, 8]
    assert [environment.name for environment in dataset.info.environments] == [
        "environment 0",
        "environment 1",
    ]
    assert (dataset.info.name, dataset.info.domain) == ("size", "domain_id")
    assert dataset.info.description.startswith("Graphs of a user, split by domain_id (column")
    assert build_splits(dataset)["id_val"].num_nodes.tolist() == list(range(11, 19))
    assert (build_splits(dataset)["ood_val"].graph["env_id"] == -1).all()
    assert build_splits(dataset)["train"].graph["env_id"].tolist() == [0, 1] * 4
    again = open_user_file(tmp_path / "GOODRing/size/processed", "good", rule="domain-sorted",
                      environments=2, domain="size")  # fmt: skip
    assert list(again.split_sizes.values()) == [24, 4, 4, 4, 4]


def test_good_folder_with_node_labels_is_read(tmp_path):
    folder = tmp_path / "GOODLine" / "word" / "processed"
    folder.mkdir(parents=True)
    torch.save(InMemoryDataset.collate([node_graph(domain="word")]), folder / "covariate.pt")
    dataset = open_user_file(folder.parent, "good")
    assert dataset.info.level == "node"
    assert build_nodes(dataset).node["node_split"].tolist() == [n % 5 for n in range(60)]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("GOODRing", {}, "{} has neither covariate_train.pt nor covariate.pt. Pass the folder of "
         "one domain, such as `--good {}/size`."),
        ("GOODRing/size", {"split_column": "concept"}, "{} has neither concept_train.pt nor "
         "concept.pt. It has the shift covariate: `--split-column covariate`."),
        (".", {}, "{} has neither covariate_train.pt nor covariate.pt. Pass the folder of one "
         "domain, such as `--good {}/GOODRing/size`."),
    ],
)  # fmt: skip
def test_wrong_good_folder_gives_a_suggestion(tmp_path, name, options, message):
    write_good(tmp_path)
    path = tmp_path / name
    resolved = resolve_user_options("good", {"file": str(path), **options})
    with pytest.raises(UsageError) as error:
        user_files("good", resolved)
    assert str(error.value) == message.format(path, path)


def test_inconsistent_good_files_are_rejected(tmp_path):
    folder = write_good(tmp_path)
    path = folder / "processed" / "covariate_val.pt"
    torch.save(InMemoryDataset.collate([Data(x=torch.ones(2, 2), y=torch.ones(1))] * 2), path)
    with pytest.raises(StageError) as error:
        open_user_file(folder, "good")
    assert (
        str(error.value) == "covariate_val.pt has no field `edge_index`, but other files have it."
    )


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
def test_any_tensors_are_read_or_rejected(tmp_path, value):
    with contextlib.suppress(StageError):
        path = save_pt(tmp_path, value)
        dataset = open_user_file(path, "pyg", task="regression", environments=1)
        assert build_splits(dataset)


@given(st.data())
@FUZZ
def test_damaged_pt_files_raise_stage_errors_only(tmp_path, data):
    torch.save([graph.to_dict() for graph in RINGS[:2]], buffer := io.BytesIO())
    content = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    (tmp_path / "mine.pt").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(StageError):
        assert read_pt_graphs(tmp_path / "mine.pt", "mine.pt").count > 0
