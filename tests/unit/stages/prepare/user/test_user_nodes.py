"""Tables of nodes and edges from users: labels, splits and error messages."""

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsx.errors import StageError, UsageError
from gsx.pipeline.plan import identity_of, make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.stages.prepare.dataset import DatasetRequest
from gsx.stages.prepare.user.dataset import open_user_dataset
from gsx.stages.prepare.user.options import resolve_user_options
from gsx.validation import validate_table

HEADER = "id,a,b,kind,toxic,year,part\n"
NODES = HEADER + "".join(
    f"n{n},{n % 7},{n / 4},{n % 2},{'' if n % 3 else n % 2},{2000 + n // 10},"
    f"{('train', 'val', 'test')[n % 3]}\n"
    for n in range(60)
)
EDGES = "from,to\n" + "".join(f"n{n},n{n + 1}\nn{n},n{n // 2}\n" for n in range(59))


def write_tables(tmp_path, nodes=NODES, edges=EDGES):
    for name, text in (("nodes.csv", nodes), ("edges.csv", edges)):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return {"file": str(tmp_path / "nodes.csv"), "edges": str(tmp_path / "edges.csv")}


def open_tables(files, **options):
    requested = {"targets": ("kind",), "feature_columns": ("a", "b"), **files, **options}
    resolved = resolve_user_options("nodes", requested)
    request = DatasetRequest(name="nodes", num_graphs=None, seed=0, raw={}, options=resolved)
    return open_user_dataset(request)


def graph_of(dataset):
    return validate_table(dataset.build("all", 0, 1), dataset.info)


def counts(table):
    return np.bincount(table.node["node_split"], minlength=5).tolist()


def test_nodes_are_split_by_column_or_degree(tmp_path):
    files = write_tables(tmp_path)
    dataset = open_tables(files, domain="column:year", ratios=(0.5, 0.2, 0.1))
    table = graph_of(dataset)
    assert counts(table) == [18, 6, 6, 20, 10]
    assert (dataset.info.level, dataset.info.name, dataset.info.domain) == ("node", "nodes", "year")
    assert [environment.name for environment in dataset.info.environments] == [
        "year 2000..2000", "year 2001..2001", "year 2002..2002",
    ]  # fmt: skip
    assert table.node["node_feat"][5].tolist() == [5.0, 1.25]
    assert table.node["node_label"].tolist() == [n % 2 for n in range(60)]
    pairs = set(zip(table.edge["edge_src"].tolist(), table.edge["edge_dst"].tolist(), strict=True))
    expected = {(n, n + 1) for n in range(59)} | {(n, n // 2) for n in range(59)}
    assert pairs == expected | {pair[::-1] for pair in expected}
    many = "from,to\n" + "".join(f"n{n},n{m}\n" for n in range(60) for m in range(n // 6))
    by_degree = graph_of(open_tables(write_tables(tmp_path, edges=many)))
    degree = np.bincount(by_degree.edge["edge_src"])
    split = by_degree.node["node_split"]
    assert degree[split <= 2].max() < degree[split == 4].min()


def test_splits_of_nodes_are_read_from_a_column(tmp_path):
    dataset = open_tables(
        write_tables(tmp_path), rule="column", split_column="part", environments=2
    )
    assert counts(graph_of(dataset)) == [8, 6, 6, 20, 20]


def test_multitask_missing_and_regression_targets_of_nodes(tmp_path):
    files = write_tables(tmp_path)
    dataset = open_tables(files, targets=("kind", "toxic"), domain="column:year")
    assert (dataset.info.task, dataset.info.outputs) == ("multitask", ("kind", "toxic"))
    assert np.isnan(graph_of(dataset).node["node_y"][:, 1]).tolist() == [
        n % 3 > 0 for n in range(60)
    ]
    dataset = open_tables(files, targets=("b",), feature_columns=("a",), task="regression",
                       domain="column:year")  # fmt: skip
    assert (dataset.info.task, dataset.info.metric) == ("regression", "rmse")
    dataset = open_tables(files, targets=("toxic",), domain="column:year")
    assert "40 nodes have no label" in dataset.warnings


def test_environments_of_nodes_are_inferred(tmp_path):
    text = "id,a,kind\n" + "".join(f"n{n},{n % 2 * 9 + n / 60},{n // 2 % 2}\n" for n in range(60))
    dataset = open_tables(write_tables(tmp_path, text), feature_columns=(), rule="random",
                       environments="infer")  # fmt: skip
    table = graph_of(dataset)
    train = table.node["node_split"] == 0
    groups = {(n % 2, env) for n, env in enumerate(table.node["node_env_id"].tolist()) if train[n]}
    assert len(groups) == len(dataset.info.environments)
    assert any("clusters by degree, features; fraction of variance between clusters: feat" in text
               for text in dataset.warnings)  # fmt: skip


def test_remaining_columns_are_features_and_ignored_columns_give_a_warning(tmp_path):
    nodes = "name,f,g,kind\n" + "".join(f"{n},{n},{-n},{n % 2}\n" for n in range(40))
    edges = "source,target,weight\n" + "".join(f"{n},{n // 3},2\n" for n in range(40))
    dataset = open_tables(
        write_tables(tmp_path, nodes, edges), feature_columns=(), id_column="name"
    )
    assert dataset.info.num_features == 2
    assert "ignored columns of edges.csv: weight" in dataset.warnings
    bare = "id,kind\n" + "".join(f"{n},{n % 2}\n" for n in range(40))
    dataset = open_tables(write_tables(tmp_path, bare, edges), feature_columns=())
    assert "nodes have no features; a constant feature 1 was added" in dataset.warnings


@pytest.mark.parametrize(
    ("nodes", "edges", "options", "message"),
    [
        ("", EDGES, {}, "nodes.csv is empty; expected a table of nodes with a header."),
        (NODES, "", {}, "edges.csv is empty; expected a table of edges."),
        (NODES, "from\nn1\n", {}, "edges.csv has one column, `from`; the first two columns must "
         "contain the ids of source and target nodes."),
        (NODES, "from;to\nn1;n2\n", {},
         "edges.csv: the header `from;to` is a single field. It seems to "
         "be separated by semicolons; gsx expects commas (and tabs in files that end in `.tsv`)."),
        (NODES, "from,to\nn1,n60\n", {},
         "edges.csv, row 0: to is `n60`, but nodes.csv has no node with this id."),
        (NODES.replace("id,", "node,", 1), EDGES, {}, "nodes.csv has no column `id`; its header is "
         "`node,a,b,kind,toxic,year,part`. Name it with `--id-column`."),
        (NODES.replace("n7,", "n5,"), EDGES, {}, "nodes.csv, row 5: id `n5` occurs again at row 7. "
         "Node ids must be unique."),
        (NODES, EDGES, {"targets": ("knd",)}, "nodes.csv has no column `knd`; its header is "
         "`id,a,b,kind,toxic,year,part`. Did you mean `kind`?"),
        (NODES, EDGES, {"feature_columns": ("a", "part")}, "nodes.csv, row 0: the feature part is "
         "`train`; expected a number. Select feature columns with `--feature-column NAME …`."),
        (NODES, EDGES, {"feature_columns": ("a", "toxic")}, "nodes.csv, row 1: the feature toxic "
         "is missing; expected a number. Select feature columns with `--feature-column NAME …`."),
        (NODES.replace("n3,3", "n3,inf"), EDGES, {}, "nodes.csv: features, row 3: a feature is not "
         "finite (1 rows in total). Replace NaN and infinite values; gsx does not impute "
         "features."),
        (NODES, EDGES, {"targets": ("a",), "feature_columns": ("b",)}, "nodes.csv, row 2: a is 2, "
         "neither 0 nor 1. Set the task: `--task regression` or `--task classification`."),
        (NODES, EDGES, {"domain": "column:toxic"},
         "nodes.csv, row 1: toxic is ``, but every row needs a domain. Fill or remove this row."),
        (NODES, EDGES, {"domain": "column:kind", "ratios": (0.4, 0.3, 0.1)}, "nodes.csv: all "
         "training nodes are in one environment, kind 0..0. Choose another domain, or set "
         "`--envs 1` to train with a single environment."),
    ],
)  # fmt: skip
def test_invalid_tables_are_rejected(tmp_path, nodes, edges, options, message):
    with pytest.raises(StageError) as error:
        open_tables(write_tables(tmp_path, nodes, edges), **options)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edges": ""},
         "no input file. Pass one: `gsx prepare --nodes FILE.csv --edges FILE.csv`."),
        ({"targets": ()}, "no target. Select the column to predict: `--target COLUMN`."),
        ({"targets": ("a",)}, "the column `a` is used twice. Use it for one purpose only."),
        ({"domain": "size"},
         "no domain `size`. Choose `degree`, or `column:NAME` for a column of the "
         "table."),
        ({"environments": "given"},
         "nodes: environments must be an integer in 1..1000 or `infer` (found given)"),
        ({"split_column": "part"},
         "the rule `column` and `--split-column NAME` require each other. "
         "Pass both or neither."),
    ],
)  # fmt: skip
def test_invalid_options_are_rejected(tmp_path, options, message):
    with pytest.raises(UsageError) as error:
        open_tables(write_tables(tmp_path), **options)
    assert str(error.value) == message


def test_key_depends_on_both_tables_and_not_on_paths(tmp_path):
    def key(folder, edges=EDGES):
        folder.mkdir()
        files = write_tables(folder, edges=edges)
        lines = "".join(f'{name} = "{path}"\n' for name, path in files.items())
        text = f'[prepare]\ndataset = "nodes"\ntargets = ["kind"]\n{lines}'
        return identity_of(make_plan(parse_recipe(text, "t.toml"))[0], {}).key

    one, other = key(tmp_path / "a"), key(tmp_path / "b")
    assert one == other != key(tmp_path / "c", EDGES + "n1,n9\n")


@given(st.binary(max_size=80) | st.text(alphabet='idnabkt,;\n"0159.-\x00é', max_size=120),
       st.booleans())  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_tables_are_read_or_rejected(tmp_path, text, nodes):
    data = text if isinstance(text, bytes) else text.encode()
    whole = HEADER.encode() + data if nodes else EDGES.encode() + data
    for body in (data, whole):
        files = (
            write_tables(tmp_path, body, EDGES) if nodes else write_tables(tmp_path, NODES, body)
        )
        with contextlib.suppress(StageError):
            assert len(graph_of(open_tables(files, environments=1))) == 1
