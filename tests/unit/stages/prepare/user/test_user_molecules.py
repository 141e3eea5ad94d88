"""Tables of molecules and TU files from users: targets, splits and error messages."""

import contextlib
import csv
import gzip
import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsx.errors import StageError, UsageError
from gsx.pipeline.plan import identity_of, make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.ragged import decode_texts
from gsx.stages.prepare.readers.csv_tables import open_table, read_bytes, read_table
from gsx.stages.prepare.targets import parse_labels, resolve_metric
from gsx.stages.prepare.user.dataset import user_files
from gsx.stages.prepare.user.options import resolve_user_options
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.raw_files import tu_path_graphs, write_folder, write_zip
from tests.support.user_data import build_splits, open_user_file

HEADER = "smiles,active,toxic,logp,assay,part\n"
ROWS = "".join(
    f"{'C' * (n + 1)}O,{n % 2},{'' if n % 3 else n % 2},{n / 4},{'pqrs'[n // 10]},"
    f"{('train', 'train', 'val', 'test')[n % 4]}\n"
    for n in range(40)
)
"""Forty alcohols with 2 to 41 heavy atoms."""


def write_table(tmp_path, text=HEADER + ROWS, name="mine.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_molecules_are_split_by_size(tmp_path):
    dataset = open_user_file(write_table(tmp_path))
    assert list(dataset.split_sizes.values()) == [24, 4, 4, 4, 4]
    tables = build_splits(dataset)
    assert tables["ood_test"].num_nodes.tolist() == [38, 39, 40, 41]
    assert (dataset.info.name, dataset.info.domain) == ("mine", "size")
    assert (dataset.info.task, dataset.info.metric) == ("binary", "roc_auc")
    assert dataset.info.environments[0].name == "atoms 2..7"
    assert len(dataset.info.environments) == 5
    down = build_splits(
        open_user_file(write_table(tmp_path), direction="descending", environments=2)
    )
    assert down["ood_test"].num_nodes.tolist() == [2, 3, 4, 5]
    assert sorted(set(down["train"].graph["env_id"].tolist())) == [0, 1]


def test_scaffolds_and_columns_are_domains(tmp_path):
    path = write_table(tmp_path)
    dataset = open_user_file(path, domain="column:assay", ratios=(0.4, 0.2, 0.1))
    tables = build_splits(dataset)
    assert set(tables["ood_val"].graph["domain_id"].tolist()) == {2}
    assert set(tables["ood_test"].graph["domain_id"].tolist()) == {3}
    assert dataset.info.domains == ("assay p", "assay q", "assay r", "assay s")
    assert [env.name for env in dataset.info.environments] == ["assay p", "assay q"]
    rings = "smiles,active\n" + "".join(
        f"{ring}{'C' * n},{n % 2}\n"
        for ring in ("C1CC1", "C1CCC1", "c1ccccc1", "c1ccncc1", "O1CCOC1")
        for n in range(8)
    )
    rings_dataset = open_user_file(
        write_table(tmp_path, rings), domain="scaffold", ratios=(0.6, 0.2, 0.1)
    )
    scaffolds = {
        split: set(decode_texts(graphs.graph["scaffold"]))
        for split, graphs in build_splits(rings_dataset).items()
    }
    assert not scaffolds["train"] & scaffolds["ood_test"]
    assert len(scaffolds["train"]) == 3


def test_numeric_columns_are_sorted_numerically(tmp_path):
    dataset = open_user_file(write_table(tmp_path), domain="column:logp", rule="quantile")
    assert list(dataset.split_sizes.values()) == [16, 2, 2, 16, 4]
    assert dataset.info.environments[0].name == "logp 0.0..0.75"


def test_splits_are_read_from_a_column(tmp_path):
    dataset = open_user_file(write_table(tmp_path), rule="column", split_column="part")
    assert list(dataset.split_sizes.values()) == [12, 4, 4, 10, 10]
    test = build_splits(dataset)["ood_test"]
    assert (test.graph["graph_id"] % 4 == 3).all()
    text = (HEADER + ROWS).replace(",val", ",id_val")
    dataset = open_user_file(write_table(tmp_path, text), rule="column", split_column="part")
    assert list(dataset.split_sizes.values()) == [20, 10, 0, 0, 10], "nothing else is held out"


def test_random_split_has_no_shift(tmp_path):
    dataset = open_user_file(write_table(tmp_path), rule="random")
    tables = build_splits(dataset)
    assert list(dataset.split_sizes.values()) == [24, 4, 4, 4, 4]
    assert tables["ood_test"].num_nodes.min() < tables["train"].num_nodes.max()
    other = open_user_file(write_table(tmp_path), rule="random", seed=1).build("ood_test", 0, 4)
    assert other.graph["graph_id"].tolist() != tables["ood_test"].graph["graph_id"].tolist()


def test_several_tasks_keep_missing_values(tmp_path):
    dataset = open_user_file(write_table(tmp_path), targets=("active", "toxic"))
    assert (dataset.info.task, dataset.info.outputs) == ("multitask", ("active", "toxic"))
    train = build_splits(dataset)["train"]
    y = {int(row): values for row, values in zip(train.graph["graph_id"], train.graph["y"],
                                                 strict=True)}  # fmt: skip
    assert all(np.isnan(values[1]) == bool(row % 3) for row, values in y.items())
    assert all(values[0] == row % 2 for row, values in y.items())
    assert (train.graph["label"] == -1).all()


def test_regression_targets_are_kept(tmp_path):
    dataset = open_user_file(write_table(tmp_path), targets=("logp", "active"), task="regression")
    assert (dataset.info.task, dataset.info.metric) == ("regression", "rmse")
    train = build_splits(dataset)["train"]
    np.testing.assert_allclose(train.graph["y"][:, 0], train.graph["graph_id"] / 4)


def test_classes_are_named_after_their_labels(tmp_path):
    text = "smiles,kind\n" + "".join(f"{'C' * (n + 1)},{(n % 3) * 5}\n" for n in range(30))
    dataset = open_user_file(write_table(tmp_path, text), targets=("kind",), task="classification")
    assert dataset.info.outputs == ("0", "5", "10")
    train = build_splits(dataset)["train"]
    assert (train.graph["label"] == train.graph["graph_id"] % 3).all()


def test_rows_without_any_label_are_kept_and_counted(tmp_path):
    text = HEADER + ROWS.replace("\nCCO,1,", "\nCCO,NaN,")
    dataset = open_user_file(write_table(tmp_path, text))
    assert dataset.warnings == ("1 graph has no label",)


def test_environments_are_inferred(tmp_path):
    text = "smiles,active\n" + "".join(
        f"{('c1ccccc1', 'CCCCCC')[n % 2]}{'C' * (3 + n % 5)},{n // 2 % 2}\n" for n in range(60)
    )
    dataset = open_user_file(write_table(tmp_path, text), rule="random", environments="infer")
    (note,) = (text for text in dataset.warnings if "inferred" in text)
    assert "clusters by size, density and features of nodes; fraction of variance" in note
    train = build_splits(dataset)["train"]
    groups = [set((train.graph["graph_id"][train.graph["env_id"] == env] % 2).tolist())
              for env in range(len(dataset.info.environments))]  # fmt: skip
    assert all(len(group) == 1 for group in groups), "rings apart from chains"
    assert dataset.info.environments[0].name.startswith("group 0: ")
    assert (build_splits(dataset)["ood_test"].graph["env_id"] == -1).all()


def test_unreadable_smiles_are_listed_or_rejected(tmp_path):
    path = write_table(tmp_path, HEADER + "C(C,1,0,1,p,train\n" + ROWS + ",0,0,1,p,train\n")
    dataset = open_user_file(path)
    (dropped,) = dataset.dropped
    assert dropped.examples == (
        "row 0: `C(C` is not a valid SMILES string",
        "row 41: the SMILES is empty",
    )
    assert sum(dataset.split_sizes.values()) == sum(dataset.summary["rows"].values()) == 40
    with pytest.raises(StageError) as error:
        open_user_file(path, strict=True)
    assert str(error.value) == (
        "mine.csv: 2 of 42 SMILES are unreadable:\n  row 0: `C(C` is not a valid SMILES string\n"
        "  row 41: the SMILES is empty\nRemove --strict to continue without these rows."
    )


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "mine.csv is empty; expected a table with a header."),
        (HEADER, {}, "mine.csv has a header but no rows."),
        ("smiles;active\nC;1\n", {}, "mine.csv: the header `smiles;active` is a single field. It "
         "seems to be separated by semicolons; gsx expects commas (and tabs in files that end in "
         "`.tsv`)."),
        ("smiles active\nC 1\n", {}, "mine.csv: the header `smiles active` is a single field. It "
         "seems to be separated by spaces; gsx expects commas (and tabs in files that end in "
         "`.tsv`)."),
        (HEADER + "C,1,0,1,inf,x\n", {"domain": "column:assay", "targets": ("logp",),
         "task": "regression"}, "mine.csv, row 0: assay is `inf`, which is too large (the limit "
         "is 1e+300)."),
        (HEADER + f"C,1,0,1,{'9' * 400},x\n", {"domain": "column:assay", "targets": ("logp",),
         "task": "regression"}, f"mine.csv, row 0: assay is `{'9' * 40}`, which is too large "
         "(the limit is 1e+300)."),
        ("a,a\n1,2\n", {},
         "mine.csv: the column `a` occurs more than once in the header. Rename it."),
        ("SMILES,active\nC,1\n", {}, "mine.csv has no column `smiles`; its header is "
         "`SMILES,active`. Did you mean `SMILES`? Name it with `--smiles-column`."),
        (HEADER + ROWS, {"targets": ("activ",)}, "mine.csv has no column `activ`; its header is "
         "`smiles,active,toxic,logp,assay,part`. Did you mean `active`?"),
        (HEADER + ROWS, {"domain": "column:xyzzy"}, "mine.csv has no column `xyzzy`; its header is "
         "`smiles,active,toxic,logp,assay,part`."),
        ("smiles,active\nC,1\nCC\n", {}, "mine.csv, row 1 (line 3): 1 fields; the header has 2."),
        ('smiles,active\n\n"C\nC",1\n"C,1\nC,1\n', {},
         "mine.csv is not valid CSV: unexpected end of "
         'data, in the row that starts at line 5. Check that every quote (`"`) in it is closed.'),
        ("smiles,active\nC,1\nCC,yes\n", {},
         "mine.csv, row 1: active is `yes`; expected a number or an empty cell. Classes as text "
         "need a single target and `--task classification`."),
        ("smiles,active\nC,yes\n", {}, "mine.csv: `active` has 1 classes; expected 2..1000."),
        ("smiles,active\nC,inf\n", {}, "mine.csv, row 0: active is infinite; expected a "
         "finite number or an empty cell."),
        ("smiles,active\nC,\nCC,nan\n", {},
         "mine.csv: the target `active` is missing in every row."),
        ("smiles,active\nC,1\nCC,1\n", {},
         "mine.csv: every value of `active` is 1. A target needs both classes."),
        ("smiles,active\nC,1\nCC,2\n", {}, "mine.csv, row 1: active is 2, neither 0 nor 1. "
         "Set the task: `--task regression` or `--task classification`."),
        ("smiles,active\nC,1\nCC,2\n", {"task": "binary"},
         "mine.csv, row 1: active is 2; expected 0, 1 or an empty cell."),
        ("smiles,active\nC,1\nCC,2.5\n", {"task": "classification"}, "mine.csv, row 1: active is "
         "2.5; class labels are integers. Use `--task regression` for real values."),
        ("smiles,active\nC,1\nCC,1\n", {"task": "classification"},
         "mine.csv: `active` has 1 classes; expected 2..1000."),
        ("smiles,active\nC(,1\nN(,0\n", {}, "mine.csv: none of its 2 SMILES is readable"),
        ("smiles,active\n" + "CC,1\nCC,0\n" * 9, {}, "mine.csv: all training graphs are in one "
         "environment, atoms 2..2. Choose another domain, or set `--envs 1` to train with a single "
         "environment."),
        (HEADER + ROWS, {"domain": "scaffold", "rule": "quantile"}, "mine.csv: the rule `quantile` "
         "needs a numeric domain, but scaffolds is text. Use `--rule domain-sorted`."),
        (HEADER + "C,1,0,1,,x\n", {"domain": "column:assay", "targets": ("logp",),
         "task": "regression"}, "mine.csv, row 0: assay is ``, but every row needs a domain. Fill "
         "or remove this row."),
        (HEADER + ROWS, {"rule": "column", "split_column": "assay"}, "mine.csv, row 0: assay is "
         "`p`; expected one of train, id_val, id_test, ood_val, ood_test, val, valid, validation, "
         "test."),
        (HEADER + ROWS.replace("train", "test"), {"rule": "column", "split_column": "part"},
         "mine.csv: the training pool has 0 items, and 8 would be held out. Increase the training "
         "share or reduce the held-out share in `--ratios`."),
    ],
)  # fmt: skip
def test_invalid_tables_are_rejected(tmp_path, text, options, message):
    with pytest.raises(StageError) as error:
        open_user_file(write_table(tmp_path, text), **options)
    assert str(error.value) == message


def test_table_with_invalid_utf8_is_rejected(tmp_path):
    with pytest.raises(StageError) as error:
        open_user_file(write_table(tmp_path, b"smiles,active\n\xff,1\n"))
    assert str(error.value) == "mine.csv, line 2: invalid UTF-8 byte 0xff. Save the file as UTF-8."


def test_error_names_the_line_of_an_invalid_byte(tmp_path):
    rows = b"C,1\n" * 50_000
    with pytest.raises(StageError) as error:
        open_user_file(write_table(tmp_path, b"smiles,active\n" + rows + b"J\xf6rg,1\n" + rows))
    assert (
        str(error.value) == "mine.csv, line 50002: invalid UTF-8 byte 0xf6. Save the file as UTF-8."
    )


def test_tsv_file_with_commas_is_rejected(tmp_path):
    with pytest.raises(
        StageError, match=r"gsx expects tabs in files that end in `.tsv`, and commas"
    ):
        open_user_file(write_table(tmp_path, name="mine.tsv"))


def test_tsv_files_are_read(tmp_path):
    text = (HEADER + ROWS).replace(",", "\t")
    assert sum(open_user_file(write_table(tmp_path, text, "mine.tsv")).split_sizes.values()) == 40


def test_single_environment_is_accepted_on_request(tmp_path):
    text = "smiles,active\n" + "CC,1\nCC,0\n" * 9
    dataset = open_user_file(write_table(tmp_path, text), environments=1)
    assert len(dataset.info.environments) == 1
    assert dataset.warnings[-1] == (
        "ood_test is empty: the last domains are too large for these ratios. Use smaller training "
        "and validation ratios, such as `--ratios 0.5/0.25/0.1`, or another domain"
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("smiles", {"file": ""},
         "no input file. Pass one: `gsx prepare --smiles FILE.csv`."),
        ("smiles", {"targets": ()}, "no target. Select the column to predict: `--target COLUMN`."),
        ("smiles", {"targets": ("a", "a")},
         "the column `a` is used twice. Use it for one purpose only."),
        ("smiles", {"domain": "colour"}, "no domain `colour`. Choose `size`, `scaffold`, or "
         "`column:NAME` for a column of the table."),
        ("smiles", {"rule": "column"}, "the rule `column` and `--split-column NAME` require each "
         "other. Pass both or neither."),
        ("smiles", {"ratios": (0.9, 0.2, 0.1)}, "ratios: 0.9 for training and 0.2 for ood_val; "
         "expected fractions with a sum of at most 1. ood_test gets the rest."),
        ("smiles", {"ratios": (0.4, 0.2, 0.2)}, "ratios: 0.2 for each of id_val and id_test; "
         "expected less than half of the training share, 0.4, from which they are taken."),
        ("smiles", {"environments": "colour"},
         "smiles: environments must be an integer in 1..1000 or `infer` (found colour)"),
        ("smiles", {"protocol": "mid"}, "smiles has no option `protocol`. Known: "),
        ("tu", {"domain": "scaffold"},
         "TU files have no columns. Use `--domain size` and a rule other than `column`."),
    ],
)  # fmt: skip
def test_invalid_options_are_rejected(name, options, message):
    requested = {"file": "mine.csv", **({"targets": ("a",)} if name == "smiles" else {}), **options}
    with pytest.raises(UsageError) as error:
        resolve_user_options(name, requested)
    assert str(error.value).startswith(message)


def test_incompatible_tasks_and_metrics_are_rejected():
    with pytest.raises(UsageError) as error:
        resolve_metric("regression", "accuracy")
    assert str(error.value) == (
        "`accuracy` is not a metric for regression tasks. Choose one of `rmse`."
    )
    with pytest.raises(UsageError) as error:
        parse_labels(np.zeros((2, 2)), ["a", "b"], "binary", "auto", "x")
    assert str(error.value) == (
        "a binary task has one target (found 2). Use `multitask` or `regression`."
    )


def recipe(path, more=""):
    text = f'[prepare]\ndataset = "smiles"\nfile = "{path}"\ntargets = ["active"]\n{more}'
    return make_plan(parse_recipe(text, "t.toml"))


def test_key_depends_on_content_and_not_on_paths(tmp_path):
    for name in "abc":
        (tmp_path / name).mkdir()
    one, other = write_table(tmp_path / "a"), write_table(tmp_path / "b")
    keys = [identity_of(recipe(path, more)[0], {}).key for path, more in (
        (one, ""), (other, "strict = true\n"), (one, 'direction = "descending"\n'),
        (write_table(tmp_path / "c", HEADER + ROWS + "C,0,,1,p,train\n"), ""),
    )]  # fmt: skip
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    ((_, built),) = run_plan(recipe(one), Store.at(tmp_path / "store"))
    manifest = built.artifact.manifest
    assert list(manifest.raw) == ["mine.csv"]
    assert {"file", "strict", "raw"}.isdisjoint(manifest.config)
    assert manifest.config["ratios"] == [0.8, 0.1, 0.1]
    assert Corpus(built.artifact).info.name == "mine"


def test_missing_file_is_reported(tmp_path):
    with pytest.raises(UsageError) as error:
        recipe(tmp_path / "no.csv")
    assert str(error.value) == (
        f"no file {tmp_path / 'no.csv'}. Pass an existing file: `gsx prepare --smiles FILE.csv`."
    )


def test_tu_files_are_read_from_zip_files_and_folders(tmp_path):
    files = tu_path_graphs(range(2, 42))
    one = open_user_file(write_zip(tmp_path / "P.zip", files), "tu", metric="mcc")
    flat = {name.removeprefix("P/"): text for name, text in files.items()}
    write_folder(tmp_path / "P" / "raw", {**flat, "notes.txt": "mine"})
    other = open_user_file(tmp_path / "P", "tu", metric="mcc")
    assert list(one.split_sizes.values()) == [24, 4, 4, 4, 4]
    assert build_splits(one)["train"].equals(build_splits(other)["train"])
    assert (one.info.task, one.info.metric, one.info.outputs) == ("binary", "mcc", ("label_1",))
    assert sorted(user_files("tu", {"file": str(tmp_path / "P")})) == [
        "P_A.txt", "P_graph_indicator.txt", "P_graph_labels.txt", "P_node_labels.txt",
    ]  # fmt: skip


def test_tu_task_follows_labels_and_attributes(tmp_path):
    files = tu_path_graphs(range(2, 42))
    files["P/P_graph_labels.txt"] = "".join(f"{n % 3}\n" for n in range(40))
    assert open_user_file(write_zip(tmp_path / "P.zip", files), "tu").info.task == "classification"
    files["P/P_graph_attributes.txt"] = "".join(f"{n / 2},{n}\n" for n in range(40))
    dataset = open_user_file(write_zip(tmp_path / "P.zip", files), "tu", task="regression")
    assert dataset.info.outputs == ("value_0", "value_1")
    del files["P/P_graph_labels.txt"]
    dataset = open_user_file(write_zip(tmp_path / "P.zip", files), "tu", environments="infer")
    assert (dataset.info.task, dataset.info.metric) == ("regression", "rmse")
    assert len(dataset.info.environments) >= 2
    build_splits(dataset)


def test_published_molecules_are_split_by_scaffold(raw_file):
    path = raw_file("moleculenet/bbbp.csv")
    dataset = open_user_file(path, targets=("p_np",), domain="scaffold")
    assert sum(dataset.split_sizes.values()) == 2039 - sum(
        dropped.count for dropped in dataset.dropped
    )
    scaffolds = {
        split: set(decode_texts(graphs.graph["scaffold"]))
        for split, graphs in build_splits(dataset).items()
    }
    assert not scaffolds["train"] & (scaffolds["ood_val"] | scaffolds["ood_test"])
    assert not scaffolds["ood_val"] & scaffolds["ood_test"]


@given(st.binary(max_size=200) | st.text(alphabet="smilesactve,;\n\t\"'CO01.\x00é", max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_table_is_read_or_rejected(tmp_path, text):
    head = b"smiles,active\n"
    data = text if isinstance(text, bytes) else text.encode()
    for body in (data, head + data):
        with contextlib.suppress(StageError):
            dataset = open_user_file(write_table(tmp_path, body))
            assert sum(map(len, build_splits(dataset).values())) == sum(
                dataset.split_sizes.values()
            )


@given(st.dictionaries(
    st.sampled_from(["X_A.txt", "X_graph_indicator.txt", "X_graph_labels.txt", "X_node_labels.txt",
                     "X_edge_labels.txt", "X_node_attributes.txt"]),
    st.text(alphabet="0123,. -\nnaif", max_size=40) | st.just("1,2\n2,1\n") | st.just("1\n1\n"),
))  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_tu_files_are_read_or_rejected(tmp_path, files):
    path = write_zip(tmp_path / "X.zip", files)
    with contextlib.suppress(StageError):
        assert build_splits(open_user_file(path, "tu", task="regression"))["train"]


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.text(alphabet='ab,"\né ', max_size=4)), min_size=1)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tables_on_disk_and_in_memory_are_equal(tmp_path, rows):
    for name, pack in (("t.csv", bytes), ("t.csv.gz", gzip.compress)):
        text = io.StringIO()
        csv.writer(text).writerows([("n", "t"), *rows])
        (tmp_path / name).write_bytes(pack(text.getvalue().encode()))
        on_disk, in_memory = (read(tmp_path / name, name) for read in (open_table, read_table))
        assert on_disk.count == in_memory.count == len(rows)
        for table in (on_disk, in_memory):
            assert table.column("t") == [cell for _, cell in rows]
            assert table.numbers("n").tolist() == [number for number, _ in rows]
            assert table.keys("n").cells == [number for number, _ in rows]


def test_gzip_bomb_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setenv("GSX_LIMIT_UNPACKED_BYTES", "1000")
    data = gzip.compress(b"smiles,active\n" + b"C,1\n" * 10_000)
    message = (
        f"mine.csv.gz has {len(data)} bytes and unpacks to more than {100 * len(data):,}. Unpack "
        "it yourself if you trust it, or set GSX_LIMIT_UNPACKED_BYTES to a larger number."
    )
    for read in (read_table, open_table, read_bytes):
        with pytest.raises(StageError) as error:
            read(write_table(tmp_path, data, "mine.csv.gz"), "mine.csv.gz")
        assert str(error.value) == message
