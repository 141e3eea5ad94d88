"""A user's graph as two tables, of nodes and of edges: read, labelled, split, or refused."""

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsx.errors import StageError, UsageError
from gsx.pipeline.plan import identity_of, make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.stages.prepare.dataset import DatasetRequest
from gsx.stages.prepare.user import dataset as own
from gsx.stages.prepare.user import options as own_options
from gsx.validation import validate_table

HEADER = "id,a,b,kind,toxic,year,part\n"
NODES = HEADER + "".join(
    f"n{n},{n % 7},{n / 4},{n % 2},{'' if n % 3 else n % 2},{2000 + n // 10},"
    f"{('train', 'val', 'test')[n % 3]}\n"
    for n in range(60)
)
EDGES = "from,to\n" + "".join(f"n{n},n{n + 1}\nn{n},n{n // 2}\n" for n in range(59))


def tables(tmp_path, nodes=NODES, edges=EDGES):
    for name, text in (("nodes.csv", nodes), ("edges.csv", edges)):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return {"file": str(tmp_path / "nodes.csv"), "edges": str(tmp_path / "edges.csv")}


def source_of(files, **options):
    chosen = {"targets": ("kind",), "feature_columns": ("a", "b"), **files, **options}
    chosen = own_options.resolve_user_options("nodes", chosen)
    return own.open_user_dataset(DatasetRequest(name="nodes", num_graphs=None, seed=0, raw={}, options=chosen))


def graph_of(source):
    return validate_table(source.build("all", 0, 1), source.info)


def counts(table):
    return np.bincount(table.node["node_split"], minlength=5).tolist()


def test_nodes_are_split_by_a_column_or_by_their_degree(tmp_path):
    files = tables(tmp_path)
    source = source_of(files, domain="column:year", ratios=(0.5, 0.2, 0.1))
    table = graph_of(source)
    assert counts(table) == [18, 6, 6, 20, 10]
    assert (source.info.level, source.info.name, source.info.domain) == ("node", "nodes", "year")
    assert [each.name for each in source.info.environments] == [
        "year 2000..2000", "year 2001..2001", "year 2002..2002",
    ]  # fmt: skip
    assert table.node["node_feat"][5].tolist() == [5.0, 1.25]
    assert table.node["node_label"].tolist() == [n % 2 for n in range(60)]
    pairs = set(zip(table.edge["edge_src"].tolist(), table.edge["edge_dst"].tolist(), strict=True))
    expected = {(n, n + 1) for n in range(59)} | {(n, n // 2) for n in range(59)}
    assert pairs == expected | {pair[::-1] for pair in expected}
    many = "from,to\n" + "".join(f"n{n},n{m}\n" for n in range(60) for m in range(n // 6))
    by_degree = graph_of(source_of(tables(tmp_path, edges=many)))
    degree = np.bincount(by_degree.edge["edge_src"])
    split = by_degree.node["node_split"]
    assert degree[split <= 2].max() < degree[split == 4].min()


def test_a_column_may_name_the_splits_of_nodes(tmp_path):
    source = source_of(tables(tmp_path), rule="column", split_column="part", environments=2)
    assert counts(graph_of(source)) == [8, 6, 6, 20, 20]


def test_labels_of_nodes_may_be_several_missing_or_values(tmp_path):
    files = tables(tmp_path)
    source = source_of(files, targets=("kind", "toxic"), domain="column:year")
    assert (source.info.task, source.info.outputs) == ("multitask", ("kind", "toxic"))
    assert np.isnan(graph_of(source).node["node_y"][:, 1]).tolist() == [
        n % 3 > 0 for n in range(60)
    ]
    source = source_of(files, targets=("b",), feature_columns=("a",), task="regression",
                       domain="column:year")  # fmt: skip
    assert (source.info.task, source.info.metric) == ("regression", "rmse")
    source = source_of(files, targets=("toxic",), domain="column:year")
    assert "nothing is known of 40 nodes: they have no label" in source.warnings


def test_environments_of_nodes_may_be_inferred(tmp_path):
    text = "id,a,kind\n" + "".join(f"n{n},{n % 2 * 9 + n / 60},{n // 2 % 2}\n" for n in range(60))
    source = source_of(tables(tmp_path, text), feature_columns=(), rule="random",
                       environments="infer")  # fmt: skip
    table = graph_of(source)
    train = table.node["node_split"] == 0
    groups = {(n % 2, env) for n, env in enumerate(table.node["node_env_id"].tolist()) if train[n]}
    assert len(groups) == len(source.info.environments)
    assert any("look alike in degree, features; they differ most in feat" in each
               for each in source.warnings)  # fmt: skip


def test_features_are_all_columns_left_and_more_columns_of_edges_are_told(tmp_path):
    nodes = "name,f,g,kind\n" + "".join(f"{n},{n},{-n},{n % 2}\n" for n in range(40))
    edges = "source,target,weight\n" + "".join(f"{n},{n // 3},2\n" for n in range(40))
    source = source_of(tables(tmp_path, nodes, edges), feature_columns=(), id_column="name")
    assert source.info.num_features == 2
    assert "columns of edges.csv that are not read: weight" in source.warnings
    bare = "id,kind\n" + "".join(f"{n},{n % 2}\n" for n in range(40))
    source = source_of(tables(tmp_path, bare, edges), feature_columns=())
    assert "nodes have no features: each gets a 1" in source.warnings


@pytest.mark.parametrize(
    ("nodes", "edges", "options", "message"),
    [
        ("", EDGES, {}, "nodes.csv is empty; it should be a table of nodes with a header."),
        (NODES, "", {}, "edges.csv is empty; it should be a table of edges."),
        (NODES, "from\nn1\n", {}, "edges.csv has one column, `from`; the first two should hold the "
         "ids of the nodes that an edge joins."),
        (NODES, "from;to\nn1;n2\n", {}, "edges.csv: the header `from;to` is one field. Its fields "
         "seem to be parted by semicolons; gsx reads commas (and tabs where the name ends in "
         "`.tsv`)."),
        (NODES, "from,to\nn1,n60\n", {},
         "edges.csv, row 0: to is `n60`; nodes.csv has no node of this id."),
        (NODES.replace("id,", "node,", 1), EDGES, {}, "nodes.csv has no column `id`; its header is "
         "`node,a,b,kind,toxic,year,part`. Name it with `--id-column`."),
        (NODES.replace("n7,", "n5,"), EDGES, {}, "nodes.csv, row 5: id `n5` stands again at row 7; "
         "every node needs an id of its own."),
        (NODES, EDGES, {"targets": ("knd",)}, "nodes.csv has no column `knd`; its header is "
         "`id,a,b,kind,toxic,year,part`. Did you mean `kind`?"),
        (NODES, EDGES, {"feature_columns": ("a", "part")}, "nodes.csv, row 0: the feature part is "
         "`train`; expected a number. Name the columns that are features with `--feature-column "
         "NAME …`."),
        (NODES, EDGES, {"feature_columns": ("a", "toxic")}, "nodes.csv, row 1: the feature toxic "
         "is missing; expected a number. Name the columns that are features with "
         "`--feature-column NAME …`."),
        (NODES.replace("n3,3", "n3,inf"), EDGES, {}, "nodes.csv: features, row 3: a feature is not "
         "finite (1 such rows). Clean the data; gsx does not guess features."),
        (NODES, EDGES, {"targets": ("a",), "feature_columns": ("b",)}, "nodes.csv, row 2: a is 2, "
         "neither 0 nor 1. Say what it is: `--task regression` or `--task classification`."),
        (NODES, EDGES, {"domain": "column:toxic"},
         "nodes.csv, row 1: toxic is ``; every row needs a domain."),
        (NODES, EDGES, {"domain": "column:kind", "ratios": (0.4, 0.3, 0.1)}, "nodes.csv: all nodes "
         "to train on are of one environment, kind 0..0. Choose another domain, or say `--envs 1` "
         "if that is meant."),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_used_are_refused(tmp_path, nodes, edges, options, message):
    with pytest.raises(StageError) as error:
        source_of(tables(tmp_path, nodes, edges), **options)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edges": ""},
         "no file to read. Name it: `gsx prepare --nodes FILE.csv --edges FILE.csv`."),
        ({"targets": ()}, "no target to learn. Name the column: `--target COLUMN`."),
        ({"targets": ("a",)}, "the column `a` cannot be used twice; name it once."),
        ({"domain": "size"}, "no domain `size`. Say `degree` or `column:NAME` for a column of the "
         "table."),
        ({"environments": "given"},
         "nodes: environments must be a whole number in 1..1000 or `infer`; got given"),
        ({"split_column": "part"}, "the rule `column` and `--split-column NAME`, the column that "
         "names the splits, go together; one was given without the other."),
    ],
)  # fmt: skip
def test_options_that_cannot_be_meant_are_refused(tmp_path, options, message):
    with pytest.raises(UsageError) as error:
        source_of(tables(tmp_path), **options)
    assert str(error.value) == message


def test_both_tables_are_part_of_the_key_and_their_places_are_not(tmp_path):
    def key(folder, edges=EDGES):
        folder.mkdir()
        files = tables(folder, edges=edges)
        lines = "".join(f'{name} = "{path}"\n' for name, path in files.items())
        text = f'[prepare]\ndataset = "nodes"\ntargets = ["kind"]\n{lines}'
        return identity_of(make_plan(parse_recipe(text, "t.toml"))[0], {}).key

    one, other = key(tmp_path / "a"), key(tmp_path / "b")
    assert one == other != key(tmp_path / "c", EDGES + "n1,n9\n")


@given(st.binary(max_size=80) | st.text(alphabet='idnabkt,;\n"0159.-\x00é', max_size=120),
       st.booleans())  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_tables_hold_they_are_read_or_refused(tmp_path, text, nodes):
    data = text if isinstance(text, bytes) else text.encode()
    whole = HEADER.encode() + data if nodes else EDGES.encode() + data
    for body in (data, whole):
        files = tables(tmp_path, body, EDGES) if nodes else tables(tmp_path, NODES, body)
        with contextlib.suppress(StageError):
            graph_of(source_of(files, environments=1))
