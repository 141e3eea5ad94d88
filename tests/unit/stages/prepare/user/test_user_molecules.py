"""A user's own molecules and graphs: read, labelled, split, or refused with a reason."""

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
from gsx.stages.prepare.dataset import DatasetRequest
from gsx.stages.prepare.readers import csv_tables as tables
from gsx.stages.prepare.readers.csv_tables import open_table, read_bytes, read_table
from gsx.stages.prepare.targets import parse_labels, resolve_metric
from gsx.stages.prepare.user import dataset as own
from gsx.stages.prepare.user import options as own_options
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.validation import validate_table
from tests.unit.stages.prepare.benchmarks.test_tu import folder, paths_of, zipped

HEADER = "smiles,active,toxic,logp,assay,part\n"
ROWS = "".join(
    f"{'C' * (n + 1)}O,{n % 2},{'' if n % 3 else n % 2},{n / 4},{'pqrs'[n // 10]},"
    f"{('train', 'train', 'val', 'test')[n % 4]}\n"
    for n in range(40)
)
"""Forty alcohols of 2 to 41 heavy atoms."""


def table(tmp_path, text=HEADER + ROWS, name="mine.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def source_of(path, name="smiles", seed=0, **options):
    if name == "smiles":
        options = {"targets": ("active",), **options}
    options = own_options.resolve_user_options(name, {"file": str(path), **options})
    return own.open_user_dataset(DatasetRequest(name=name, num_graphs=None, seed=seed, raw={}, options=options))


def checked(source):
    """Return all graphs of a source, checked as for writing, by split."""
    return {
        split: validate_table(source.build(split, 0, size), source.info)
        for split, size in source.split_sizes.items()
    }


def test_molecules_are_split_by_size(tmp_path):
    source = source_of(table(tmp_path))
    assert list(source.split_sizes.values()) == [24, 4, 4, 4, 4]
    tables = checked(source)
    assert tables["ood_test"].num_nodes.tolist() == [38, 39, 40, 41]
    assert (source.info.name, source.info.domain) == ("mine", "size")
    assert (source.info.task, source.info.metric) == ("binary", "roc_auc")
    assert source.info.environments[0].name == "atoms 2..7"
    assert len(source.info.environments) == 5
    down = checked(source_of(table(tmp_path), direction="descending", environments=2))
    assert down["ood_test"].num_nodes.tolist() == [2, 3, 4, 5]
    assert sorted(set(down["train"].graph["env_id"].tolist())) == [0, 1]


def test_scaffolds_and_columns_are_domains_too(tmp_path):
    text = table(tmp_path)
    source = source_of(text, domain="column:assay", ratios=(0.4, 0.2, 0.1))
    tables = checked(source)
    assert set(tables["ood_val"].graph["domain_id"].tolist()) == {2}
    assert set(tables["ood_test"].graph["domain_id"].tolist()) == {3}
    assert source.info.domains == ("assay p", "assay q", "assay r", "assay s")
    assert [env.name for env in source.info.environments] == ["assay p", "assay q"]
    rings = "smiles,active\n" + "".join(
        f"{ring}{'C' * n},{n % 2}\n"
        for ring in ("C1CC1", "C1CCC1", "c1ccccc1", "c1ccncc1", "O1CCOC1")
        for n in range(8)
    )
    found = source_of(table(tmp_path, rings), domain="scaffold", ratios=(0.6, 0.2, 0.1))
    parts = {name: set(decode_texts(part.graph["scaffold"])) for name, part in checked(found).items()}
    assert not parts["train"] & parts["ood_test"]
    assert len(parts["train"]) == 3


def test_numbers_in_a_column_are_sorted_as_numbers(tmp_path):
    source = source_of(table(tmp_path), domain="column:logp", rule="quantile")
    assert list(source.split_sizes.values()) == [16, 2, 2, 16, 4]
    assert source.info.environments[0].name == "logp 0.0..0.75"


def test_a_column_may_name_the_splits(tmp_path):
    source = source_of(table(tmp_path), rule="column", split_column="part")
    assert list(source.split_sizes.values()) == [12, 4, 4, 10, 10]
    test = checked(source)["ood_test"]
    assert (test.graph["graph_id"] % 4 == 3).all()
    text = (HEADER + ROWS).replace(",val", ",id_val")
    source = source_of(table(tmp_path, text), rule="column", split_column="part")
    assert list(source.split_sizes.values()) == [20, 10, 0, 0, 10], "nothing else is held out"


def test_a_random_split_does_not_shift(tmp_path):
    source = source_of(table(tmp_path), rule="random")
    tables = checked(source)
    assert list(source.split_sizes.values()) == [24, 4, 4, 4, 4]
    assert tables["ood_test"].num_nodes.min() < tables["train"].num_nodes.max()
    other = source_of(table(tmp_path), rule="random", seed=1).build("ood_test", 0, 4)
    assert other.graph["graph_id"].tolist() != tables["ood_test"].graph["graph_id"].tolist()


def test_several_tasks_keep_missing_values(tmp_path):
    source = source_of(table(tmp_path), targets=("active", "toxic"))
    assert (source.info.task, source.info.outputs) == ("multitask", ("active", "toxic"))
    train = checked(source)["train"]
    y = {int(row): values for row, values in zip(train.graph["graph_id"], train.graph["y"],
                                                 strict=True)}  # fmt: skip
    assert all(np.isnan(values[1]) == bool(row % 3) for row, values in y.items())
    assert all(values[0] == row % 2 for row, values in y.items())
    assert (train.graph["label"] == -1).all()


def test_values_are_carried(tmp_path):
    source = source_of(table(tmp_path), targets=("logp", "active"), task="regression")
    assert (source.info.task, source.info.metric) == ("regression", "rmse")
    train = checked(source)["train"]
    np.testing.assert_allclose(train.graph["y"][:, 0], train.graph["graph_id"] / 4)


def test_classes_are_named_by_their_numbers(tmp_path):
    text = "smiles,kind\n" + "".join(f"{'C' * (n + 1)},{(n % 3) * 5}\n" for n in range(30))
    source = source_of(table(tmp_path, text), targets=("kind",), task="classification")
    assert source.info.outputs == ("0", "5", "10")
    train = checked(source)["train"]
    assert (train.graph["label"] == train.graph["graph_id"] % 3).all()


def test_rows_without_any_label_are_kept_and_counted(tmp_path):
    text = HEADER + ROWS.replace("\nCCO,1,", "\nCCO,NaN,")
    source = source_of(table(tmp_path, text))
    assert source.warnings == ("nothing is known of 1 graphs: they have no label",)


def test_environments_may_be_inferred(tmp_path):
    text = "smiles,active\n" + "".join(
        f"{('c1ccccc1', 'CCCCCC')[n % 2]}{'C' * (3 + n % 5)},{n // 2 % 2}\n" for n in range(60)
    )
    source = source_of(table(tmp_path, text), rule="random", environments="infer")
    (said,) = (each for each in source.warnings if "inferred" in each)
    assert "groups that look alike in size, density and features of nodes; they differ" in said
    train = checked(source)["train"]
    groups = [set((train.graph["graph_id"][train.graph["env_id"] == env] % 2).tolist())
              for env in range(len(source.info.environments))]  # fmt: skip
    assert all(len(group) == 1 for group in groups), "rings apart from chains"
    assert source.info.environments[0].name.startswith("group 0: ")
    assert (checked(source)["ood_test"].graph["env_id"] == -1).all()


def test_unreadable_smiles_are_listed_or_refused(tmp_path):
    path = table(tmp_path, HEADER + "C(C,1,0,1,p,train\n" + ROWS + ",0,0,1,p,train\n")
    source = source_of(path)
    (dropped,) = source.dropped
    assert dropped.examples == ("row 0: `C(C` is not SMILES", "row 41: the SMILES is empty")
    assert sum(source.split_sizes.values()) == sum(source.summary["rows"].values()) == 40
    with pytest.raises(StageError) as error:
        source_of(path, strict=True)
    assert str(error.value) == (
        "mine.csv: 2 of 42 SMILES cannot be read:\n  row 0: `C(C` is not SMILES\n"
        "  row 41: the SMILES is empty\nLeave out --strict to go on without these rows."
    )


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "mine.csv is empty; it should be a table with a header."),
        (HEADER, {}, "mine.csv has a header and no rows."),
        ("smiles;active\nC;1\n", {}, "mine.csv: the header `smiles;active` is one field. Its "
         "fields seem to be parted by semicolons; gsx reads commas (and tabs where the name ends "
         "in `.tsv`)."),
        ("smiles active\nC 1\n", {}, "mine.csv: the header `smiles active` is one field. Its "
         "fields seem to be parted by spaces; gsx reads commas (and tabs where the name ends in "
         "`.tsv`)."),
        (HEADER + "C,1,0,1,inf,x\n", {"domain": "column:assay", "targets": ("logp",),
         "task": "regression"}, "mine.csv, row 0: assay is `inf`, too large a number."),
        (HEADER + f"C,1,0,1,{'9' * 400},x\n", {"domain": "column:assay", "targets": ("logp",),
         "task": "regression"}, f"mine.csv, row 0: assay is `{'9' * 40}`, too large a number."),
        ("a,a\n1,2\n", {}, "mine.csv: the column `a` stands more than once in the header."),
        ("SMILES,active\nC,1\n", {}, "mine.csv has no column `smiles`; its header is "
         "`SMILES,active`. Name it with `--smiles-column`."),
        (HEADER + ROWS, {"targets": ("activ",)}, "mine.csv has no column `activ`; its header is "
         "`smiles,active,toxic,logp,assay,part`. Did you mean `active`?"),
        (HEADER + ROWS, {"domain": "column:xyzzy"}, "mine.csv has no column `xyzzy`; its header is "
         "`smiles,active,toxic,logp,assay,part`."),
        ("smiles,active\nC,1\nCC\n", {}, "mine.csv, row 1 (line 3): 1 fields; the header has 2."),
        ('smiles,active\n\n"C\nC",1\n"C,1\nC,1\n', {}, "mine.csv is no CSV: unexpected end of "
         'data, in the row that begins at line 5. See whether every quote (`"`) there is closed.'),
        ("smiles,active\nC,yes\n", {},
         "mine.csv, row 0: active is `yes`; expected a number or nothing. Write classes as whole "
         "numbers."),
        ("smiles,active\nC,inf\n", {}, "mine.csv, row 0: active is infinite; expected a "
         "number or nothing."),
        ("smiles,active\nC,\nCC,nan\n", {}, "mine.csv: no row has a value of `active`."),
        ("smiles,active\nC,1\nCC,1\n", {},
         "mine.csv: every known value of `active` is 1; there is nothing to learn."),
        ("smiles,active\nC,1\nCC,2\n", {}, "mine.csv, row 1: active is 2, neither 0 nor 1. Say "
         "what it is: `--task regression` or `--task classification`."),
        ("smiles,active\nC,1\nCC,2\n", {"task": "binary"},
         "mine.csv, row 1: active is 2; expected 0, 1 or nothing."),
        ("smiles,active\nC,1\nCC,2.5\n", {"task": "classification"}, "mine.csv, row 1: active is "
         "2.5; labels of classes are whole numbers. Say `--task regression` if it is a value."),
        ("smiles,active\nC,1\nCC,1\n", {"task": "classification"},
         "mine.csv: `active` has 1 classes; expected 2..1000."),
        ("smiles,active\nC(,1\nN(,0\n", {}, "mine.csv: not one of its 2 SMILES can be read"),
        ("smiles,active\n" + "CC,1\nCC,0\n" * 9, {}, "mine.csv: all graphs to train on are of one "
         "environment, atoms 2..2. Choose another domain, or say `--envs 1` if that is meant."),
        (HEADER + ROWS, {"domain": "scaffold", "rule": "quantile"}, "mine.csv: the rule `quantile` "
         "needs a domain of numbers, and scaffolds are text. Use `domain-sorted`."),
        (HEADER + "C,1,0,1,,x\n", {"domain": "column:assay", "targets": ("logp",),
         "task": "regression"}, "mine.csv, row 0: assay is ``; every row needs a domain."),
        (HEADER + ROWS, {"rule": "column", "split_column": "assay"}, "mine.csv, row 0: assay is "
         "`p`; expected one of train, id_val, id_test, ood_val, ood_test, val, valid, validation, "
         "test."),
        (HEADER + ROWS.replace("train", "test"), {"rule": "column", "split_column": "part"},
         "mine.csv: 0 items to train on, of which 8 would be held out. Ask for a larger share to "
         "train on, or hold out less."),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_used_is_refused(tmp_path, text, options, message):
    with pytest.raises(StageError) as error:
        source_of(table(tmp_path, text), **options)
    assert str(error.value) == message


def test_a_table_that_is_not_text_is_refused(tmp_path):
    with pytest.raises(StageError) as error:
        source_of(table(tmp_path, b"smiles,active\n\xff,1\n"))
    assert str(error.value) == "mine.csv, line 2: the byte 0xff is no UTF-8. Save it as UTF-8."


def test_a_byte_that_is_no_text_is_found_far_into_a_table(tmp_path):
    rows = b"C,1\n" * 50_000
    with pytest.raises(StageError) as error:
        source_of(table(tmp_path, b"smiles,active\n" + rows + b"J\xf6rg,1\n" + rows))
    assert str(error.value) == "mine.csv, line 50002: the byte 0xf6 is no UTF-8. Save it as UTF-8."


def test_tables_of_commas_that_claim_to_hold_tabs_are_refused(tmp_path):
    with pytest.raises(StageError, match=r"gsx reads tabs where the name ends in `.tsv`, else com"):
        source_of(table(tmp_path, name="mine.tsv"))


def test_tables_of_tabs_are_read_where_their_name_says_so(tmp_path):
    text = (HEADER + ROWS).replace(",", "\t")
    assert sum(source_of(table(tmp_path, text, "mine.tsv")).split_sizes.values()) == 40


def test_one_environment_is_fine_where_it_is_meant(tmp_path):
    text = "smiles,active\n" + "CC,1\nCC,0\n" * 9
    source = source_of(table(tmp_path, text), environments=1)
    assert len(source.info.environments) == 1
    assert source.warnings[-1] == (
        "nothing is left to test on: the last domains are too large for these shares. Ask for a "
        "smaller share to train on, such as `--ratios 0.5/0.25/0.1`, or another domain"
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("smiles", {"file": ""},
         "no file to read. Name it: `gsx prepare --smiles FILE.csv`."),
        ("smiles", {"targets": ()}, "no target to learn. Name the column: `--target COLUMN`."),
        ("smiles", {"targets": ("a", "a")},
         "the column `a` cannot be used twice; name it once."),
        ("smiles", {"domain": "colour"}, "no domain `colour`. Say `size`, `scaffold` or "
         "`column:NAME` for a column of the table."),
        ("smiles", {"rule": "column"}, "the rule `column` and `--split-column NAME`, the column "
         "that names the splits, go together; one was given without the other."),
        ("smiles", {"ratios": (0.9, 0.2, 0.1)}, "ratios: 0.9 to train on and 0.2 for ood_val; "
         "expected shares of all graphs that leave something for ood_test."),
        ("smiles", {"ratios": (0.4, 0.2, 0.2)}, "ratios: 0.2 each for id_val and id_test; they "
         "come out of the 0.4 to train on, so expected less than half of that."),
        ("smiles", {"environments": "colour"},
         "smiles: environments must be a whole number in 1..1000 or `infer`; got colour"),
        ("smiles", {"protocol": "mid"}, "smiles has no option `protocol`. Known: "),
        ("tu", {"domain": "scaffold"},
         "TU files have no columns: the domain is `size`, and no column splits."),
    ],
)  # fmt: skip
def test_options_that_cannot_be_meant_are_refused(name, options, message):
    given = {"file": "mine.csv", **({"targets": ("a",)} if name == "smiles" else {}), **options}
    with pytest.raises(UsageError) as error:
        own_options.resolve_user_options(name, given)
    assert str(error.value).startswith(message)


def test_tasks_and_metrics_that_do_not_go_together_are_refused():
    with pytest.raises(UsageError) as error:
        resolve_metric("regression", "accuracy")
    assert str(error.value) == (
        "the metric `accuracy` is none of a regression task; it has `rmse`."
    )
    with pytest.raises(UsageError) as error:
        parse_labels(np.zeros((2, 2)), ["a", "b"], "binary", "auto", "x")
    assert str(error.value) == (
        "a binary task has one target; got 2. Say `multitask` or `regression`."
    )


def recipe(path, more=""):
    text = f'[prepare]\ndataset = "smiles"\nfile = "{path}"\ntargets = ["active"]\n{more}'
    return make_plan(parse_recipe(text, "t.toml"))


def test_the_key_follows_what_is_read_and_not_where_it_lies(tmp_path):
    for name in "abc":
        (tmp_path / name).mkdir()
    one, other = table(tmp_path / "a"), table(tmp_path / "b")
    keys = [identity_of(recipe(path, more)[0], {}).key for path, more in (
        (one, ""), (other, "strict = true\n"), (one, 'direction = "descending"\n'),
        (table(tmp_path / "c", HEADER + ROWS + "C,0,,1,p,train\n"), ""),
    )]  # fmt: skip
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    ((_, built),) = run_plan(recipe(one), Store.at(tmp_path / "store"))
    manifest = built.artifact.manifest
    assert list(manifest.raw) == ["mine.csv"]
    assert {"file", "strict", "raw"}.isdisjoint(manifest.config)
    assert manifest.config["ratios"] == [0.8, 0.1, 0.1]
    assert Corpus(built.artifact).info.name == "mine"


def test_a_file_that_is_not_there_is_asked_for(tmp_path):
    with pytest.raises(UsageError) as error:
        recipe(tmp_path / "no.csv")
    assert str(error.value) == (
        f"no file {tmp_path / 'no.csv'}. Name it: `gsx prepare --smiles FILE.csv`."
    )


def test_tu_files_are_read_from_zip_files_and_folders(tmp_path):
    files = paths_of(range(2, 42))
    one = source_of(zipped(tmp_path / "P.zip", files), "tu", metric="mcc")
    flat = {name.removeprefix("P/"): text for name, text in files.items()}
    folder(tmp_path / "P" / "raw", {**flat, "notes.txt": "mine"})
    other = source_of(tmp_path / "P", "tu", metric="mcc")
    assert list(one.split_sizes.values()) == [24, 4, 4, 4, 4]
    assert checked(one)["train"].equals(checked(other)["train"])
    assert (one.info.task, one.info.metric, one.info.outputs) == ("binary", "mcc", ("label_1",))
    assert sorted(own.user_files("tu", {"file": str(tmp_path / "P")})) == [
        "P_A.txt", "P_graph_indicator.txt", "P_graph_labels.txt", "P_node_labels.txt",
    ]  # fmt: skip


def test_tu_classes_and_values_are_told_apart(tmp_path):
    files = paths_of(range(2, 42))
    files["P/P_graph_labels.txt"] = "".join(f"{n % 3}\n" for n in range(40))
    assert source_of(zipped(tmp_path / "P.zip", files), "tu").info.task == "classification"
    files["P/P_graph_attributes.txt"] = "".join(f"{n / 2},{n}\n" for n in range(40))
    source = source_of(zipped(tmp_path / "P.zip", files), "tu", task="regression")
    assert source.info.outputs == ("value_0", "value_1")
    del files["P/P_graph_labels.txt"]
    source = source_of(zipped(tmp_path / "P.zip", files), "tu", environments="infer")
    assert (source.info.task, source.info.metric) == ("regression", "rmse")
    assert len(source.info.environments) >= 2
    checked(source)


def test_published_molecules_are_split_by_scaffold(raw_file):
    path = raw_file("moleculenet/bbbp.csv")
    source = source_of(path, targets=("p_np",), domain="scaffold")
    assert sum(source.split_sizes.values()) == 2039 - sum(each.count for each in source.dropped)
    parts = {name: set(decode_texts(part.graph["scaffold"])) for name, part in checked(source).items()}
    assert not parts["train"] & (parts["ood_val"] | parts["ood_test"])
    assert not parts["ood_val"] & parts["ood_test"]


@given(st.binary(max_size=200) | st.text(alphabet="smilesactve,;\n\t\"'CO01.\x00é", max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_a_table_holds_it_is_read_or_refused(tmp_path, text):
    head = b"smiles,active\n"
    data = text if isinstance(text, bytes) else text.encode()
    for body in (data, head + data):
        with contextlib.suppress(StageError):
            source_of(table(tmp_path, body))


@given(st.dictionaries(
    st.sampled_from(["X_A.txt", "X_graph_indicator.txt", "X_graph_labels.txt", "X_node_labels.txt",
                     "X_edge_labels.txt", "X_node_attributes.txt"]),
    st.text(alphabet="0123,. -\nnaif", max_size=40) | st.just("1,2\n2,1\n") | st.just("1\n1\n"),
))  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_tu_files_hold_they_are_read_or_refused(tmp_path, files):
    path = zipped(tmp_path / "X.zip", files)
    with contextlib.suppress(StageError):
        checked(source_of(path, "tu", task="regression"))


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.text(alphabet='ab,"\né ', max_size=4)), min_size=1)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_table_on_disk_answers_as_one_in_memory(tmp_path, rows):
    for name, pack in (("t.csv", bytes), ("t.csv.gz", gzip.compress)):
        text = io.StringIO()
        csv.writer(text).writerows([("n", "t"), *rows])
        (tmp_path / name).write_bytes(pack(text.getvalue().encode()))
        found, held = (read(tmp_path / name, name) for read in (open_table, read_table))
        assert found.count == held.count == len(rows)
        for table in (found, held):
            assert table.column("t") == [cell for _, cell in rows]
            assert table.numbers("n").tolist() == [number for number, _ in rows]
            assert table.keys("n").cells == [number for number, _ in rows]


def test_a_gzip_file_that_unpacks_too_far_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_UNPACKED_BYTES", 1000)
    monkeypatch.setattr(tables, "MAX_UNPACKED_RATIO", 2)
    data = gzip.compress(b"smiles,active\n" + b"C,1\n" * 1000)
    message = "mine.csv.gz unpacks to more than 1,000 bytes. Unpack it yourself if you trust it."
    for read in (read_table, open_table, read_bytes):
        with pytest.raises(StageError) as error:
            read(table(tmp_path, data, "mine.csv.gz"), "mine.csv.gz")
        assert str(error.value) == message
