"""The command line in a subprocess: output, errors, exit codes, 80 columns."""

import json
import os
import subprocess
import sys
import time

import pytest

COMMANDS = (
    "augment", "catalog", "compare", "datasets", "demo", "describe", "diff", "doctor", "evaluate",
    "export", "fetch", "gc", "generate", "keygen", "lineage", "ls", "predict", "prepare",
    "pretrain", "pull", "push", "recipes", "recommend", "report", "run", "show", "sign", "table",
    "tag", "train", "tune", "unseal", "verify",
)  # fmt: skip


def gsx(*words, cwd=None, env=None):
    return subprocess.run(
        [sys.executable, "-m", "gsx", *words],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def prepared(tmp_path):
    """A directory with a small corpus in ./artifacts, and the JSON output about the corpus."""
    result = gsx("prepare", "motif-size", "--num-graphs", "60", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    return tmp_path, json.loads(result.stdout)


def test_help_is_instant():
    def fastest(run):
        times = []
        for _ in range(6):
            started = time.perf_counter()
            run()
            times.append(time.perf_counter() - started)
        return min(times)

    bare = fastest(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    assert fastest(lambda: gsx("--help")) < max(0.3, 10 * bare)  # machines may be slow or busy


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_page_fits_80_columns(command):
    result = gsx(command, "--help")
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) > 5
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stdout == gsx(command, "-h").stdout


def test_help_lists_every_command_with_a_full_sentence():
    lines = gsx("--help").stdout.split("Commands:")[1].strip().splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)


def test_a_command_that_builds_an_artifact_prints_one_json_object(prepared):
    _, result = prepared
    assert list(result) == ["key", "kind", "path", "digest", "reused", "counts", "seconds"]
    assert result["kind"] == "corpus"
    assert result["reused"] is False
    assert result["counts"] == {
        "train": 36, "id_val": 6, "id_test": 6, "ood_val": 6, "ood_test": 6,
    }  # fmt: skip


def test_an_identical_run_reuses_the_artifact(prepared):
    folder, first = prepared
    again = json.loads(
        gsx("prepare", "motif-size", "--num-graphs", "60", "--json", cwd=folder).stdout
    )
    assert again["reused"] is True
    assert again["digest"] == first["digest"]
    text = gsx("prepare", "motif-size", "--num-graphs", "60", cwd=folder).stdout
    assert "reused" in text


def test_progress_is_hidden_if_stderr_is_not_a_terminal(tmp_path):
    assert gsx("prepare", "motif-size", "--num-graphs", "1500", cwd=tmp_path).stderr == ""


def test_quiet_prints_nothing(tmp_path):
    result = gsx("prepare", "motif-size", "--num-graphs", "60", "--quiet", cwd=tmp_path)
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)


def test_the_store_is_the_option_or_the_variable_or_the_default(tmp_path):
    words = ("prepare", "motif-size", "--num-graphs", "60")
    gsx(*words, cwd=tmp_path)
    gsx(*words, cwd=tmp_path, env={"GSX_STORE": "from-variable"})
    gsx(*words, "--store", "from-option", cwd=tmp_path, env={"GSX_STORE": "ignored"})
    stores = {path.name for path in tmp_path.iterdir() if (path / "corpus").is_dir()}
    assert stores == {"artifacts", "from-variable", "from-option"}


def test_show_prints_the_manifest_with_splits_and_environments(prepared):
    folder, result = prepared
    shown = json.loads(gsx("show", result["key"][:8], "--json", cwd=folder).stdout)
    assert shown["key"] == result["key"]
    assert shown["splits"] == result["counts"]
    first = shown["environments"][0]
    assert {"id", "origin", "count", "min_nodes", "max_nodes"} <= set(first)
    assert shown["quality"] == {}


def test_show_finds_the_latest_artifact_of_a_kind(prepared):
    folder, _ = prepared
    newer = json.loads(
        gsx("prepare", "motif-base", "--num-graphs", "60", "--json", cwd=folder).stdout
    )
    shown = gsx("show", "--kind", "corpus", "--latest", "--json", cwd=folder).stdout
    assert json.loads(shown)["key"] == newer["key"]


def test_listings_fit_80_columns(prepared):
    folder, result = prepared
    key = result["key"]
    gsx("describe", key, cwd=folder)
    for words in (("ls",), ("show", key), ("describe", key), ("lineage", key), ("datasets",),
                  ("gc",), ("prepare", "motif-size", "--num-graphs", "60")):  # fmt: skip
        output = gsx(*words, cwd=folder).stdout
        assert output
        assert max(map(len, output.splitlines())) <= 80, output


def test_ls_groups_artifacts_by_kind(prepared):
    folder, result = prepared
    gsx("describe", result["key"], cwd=folder)
    rows = json.loads(gsx("ls", "--json", cwd=folder).stdout)["artifacts"]
    assert [row["kind"] for row in rows] == ["corpus", "statistics"]
    only = json.loads(gsx("ls", "--kind", "statistics", "--json", cwd=folder).stdout)["artifacts"]
    assert [row["kind"] for row in only] == ["statistics"]


def test_lineage_goes_back_to_the_corpus(prepared):
    folder, result = prepared
    described = json.loads(gsx("describe", result["key"], "--json", cwd=folder).stdout)
    steps = json.loads(gsx("lineage", described["key"], "--json", cwd=folder).stdout)["lineage"]
    assert [(step["depth"], step["kind"]) for step in steps] == [(0, "statistics"), (1, "corpus")]
    assert steps[1]["key"] == result["key"]


def test_export_writes_zarr_to_a_directory(prepared):
    folder, result = prepared
    out = folder / "exported"
    exported = json.loads(
        gsx("export", result["key"], "--to", "zarr", "--out", str(out), "--json", cwd=folder).stdout
    )
    assert exported["path"] == str(out)
    assert gsx("verify", str(out), cwd=folder).returncode == 0
    assert (out / "zarr" / "train-00000-of-00001" / "zarr.json").is_file()


def test_a_target_directory_that_is_not_empty_is_rejected(prepared):
    folder, result = prepared
    out = folder / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("do not lose")
    failed = gsx("export", result["key"], "--to", "zarr", "--out", str(out), cwd=folder)
    assert failed.returncode == 3
    assert "mine is not empty; nothing was written." in failed.stderr
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_diff_lists_different_options(prepared):
    folder, first = prepared
    second = json.loads(
        gsx("prepare", "motif-size", "--num-graphs", "60", "--seed", "1", "--json",
            cwd=folder).stdout
    )  # fmt: skip
    words = ("diff", first["key"], second["key"], "--json")
    output = json.loads(gsx(*words, cwd=folder).stdout)
    assert output["same_content"] is False
    assert {"where": "config.seed", "left": 0, "right": 1} in output["differences"]


def test_verify_counts_files_and_graphs(prepared):
    folder, result = prepared
    checked = json.loads(gsx("verify", "--all", "--json", cwd=folder).stdout)
    assert checked["ok"] is True
    (row,) = checked["artifacts"]
    assert (row["key"], row["graphs"], row["problems"]) == (result["key"], 60, [])


def test_gc_deletes_nothing_without_delete(prepared):
    folder, result = prepared
    listed = json.loads(gsx("gc", result["key"], "--json", cwd=folder).stdout)
    assert listed["removed"] is False
    assert gsx("show", result["key"], cwd=folder).returncode == 0
    gsx("gc", result["key"], "--delete", cwd=folder)
    assert gsx("show", result["key"], cwd=folder).returncode == 3


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path):
    result = gsx("prepare", "motif-size", "--dry-run", cwd=tmp_path)
    assert result.stdout.splitlines()[0].split() == ["STEP", "KIND", "KEY", "STATE"]
    assert result.stdout.splitlines()[1].split()[-1] == "missing"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("prepare", "motif-sise"), 2, "no dataset `motif-sise`. Did you mean `motif-size`?"),
        (("prepare", "motif-size", "--num-graphs", "9"), 2, "Use at least 10."),
        (("prepare", "motif-size", "--num-graphs", "x"), 2, "'x' is not a valid integer"),
        (("prepare",), 2, "Missing argument 'DATASET'. `gsx datasets` lists the datasets; "
         "for your own data use --smiles FILE, --tu DIR|ZIP, --ogb DIR, --pyg FILE, --good DIR or "
         "--nodes FILE."),
        (("prepare", "motif-size", "--tu", "x"), 2,
         "give exactly one source: a dataset, --smiles FILE, --tu DIR|ZIP, "),
        (("prepare", "--edges", "x.csv"), 2, "--edges needs --nodes FILE"),
        (("prepare", "--nodes", "x.csv", "--target", "y"), 2,
         "no input file. Pass one: `gsx prepare --nodes FILE.csv --edges FILE.csv`."),
        (("prepare", "--ogb", "x"), 2,
         "no folder x. Pass an existing one: `gsx prepare --ogb DIR`."),
        (("prepare", "--good", "x"), 2,
         "no folder x. Pass an existing one: `gsx prepare --good DIR`."),
        (("prepare", "--pyg", "x.pt"), 2,
         "no file x.pt. Pass an existing file: `gsx prepare --pyg FILE.pt`."),
        (("prepare", "--smiles", "x.csv", "--target", "y", "--ratios", "1/2"), 2,
         "--ratios takes three fractions such as 0.8/0.1/0.1; got `1/2`"),
        (("prepare", "--smiles", "x.csv", "--target", "y"), 2,
         "no file x.csv. Pass an existing file: `gsx prepare --smiles FILE.csv`."),
        (("prepare", "motif-size-concept", "--domain", "size"), 2,
         "motif-size-concept has no option `domain`. It has no options."),
        (("prepare", "motif-size", "--num-graphs", "0"), 2, "num_graphs must be in 1.."),
        (("prepare", "motif-size", "--frm", "zarr"), 2, "No such option '--frm'"),
        (("show",), 2, "Name one, or use `--kind KIND --latest`."),
        (("show", "abcdef"), 3, "no artifact `abcdef` in artifacts."),
        (("show", "--kind", "corpus", "--latest"), 3, "no corpus in artifacts"),
        (("verify",), 2, "Name artifacts to verify, or use `--all`."),
        (("run", "none.toml"), 2, "no recipe none.toml"),
        (("generate", "none.toml", "--featx"), 2, "no recipe none.toml"),
        (("describe", "abcdef"), 3, "no corpus artifact `abcdef` in artifacts."),
        (("pretrain", "mask", "cbas-color"), 2,
         "`cbas-color` is a dataset, not a corpus. Run `gsx prepare cbas-color` and pass the key "
         "that it prints."),
        (("train", "motif-sise"), 2,
         "no dataset and no corpus `motif-sise`. Did you mean `motif-size`?"),
    ],
)  # fmt: skip
def test_user_errors_print_one_line_and_set_the_exit_code(tmp_path, words, code, text):
    result = gsx(*words, cwd=tmp_path)
    assert result.returncode == code
    assert text in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_bug_prints_its_traceback_and_exits_with_1(tmp_path):
    code = (
        "import sys; from gsx.cli.main import main\n"
        "from gsx.stages.prepare.synthetic.motif_dataset import MotifDataset as m\n"
        "def boom(*a, **k): raise ZeroDivisionError('bug')\n"
        "m.build = boom\n"
        "sys.argv = ['gsx', 'prepare', 'motif-size', '--num-graphs', '60']; main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "ZeroDivisionError: bug" in result.stderr


def test_an_artifact_of_another_kind_is_rejected(prepared):
    folder, result = prepared
    described = json.loads(gsx("describe", result["key"], "--json", cwd=folder).stdout)
    path = described["path"]
    failed = gsx("describe", path, cwd=folder)
    assert failed.returncode == 3
    assert "is a statistics, not a corpus." in failed.stderr


def test_datasets_shows_whether_raw_files_exist(tmp_path):
    (tmp_path / "hiv").mkdir()
    (tmp_path / "hiv" / "HIV.csv").touch()
    sources = []
    for words, env in (
        ((), {}),
        (("--raw", str(tmp_path)), {}),
        ((), {"GSX_RAW_DATA": str(tmp_path)}),
        (("--raw", str(tmp_path / "empty")), {"GSX_RAW_DATA": str(tmp_path)}),
    ):
        rows = json.loads(gsx("datasets", *words, "--json", env=env).stdout)["datasets"]
        sources.append({row["name"]: row["source"] for row in rows})
    assert [source["hiv-size"] for source in sources] == [
        "not found", "raw files", "raw files", "not found",
    ]  # fmt: skip
    assert sources[0]["motif-size"] == "built in"
    shown = gsx("datasets")
    assert shown.stderr == (
        "Set the directory of raw files with `--raw DIR` or GSX_RAW_DATA.\n"
        "`gsx fetch NAME --raw DIR` downloads those marked `to fetch`.\n"
    )


def test_raw_files_are_found_in_the_directory_of_the_environment_variable(tmp_path):
    (tmp_path / "hiv").mkdir()
    rows = "".join(f"{'C' * number},CI,{number % 2}\n" for number in range(1, 21))
    (tmp_path / "hiv" / "HIV.csv").write_text("smiles,activity,HIV_active\n" + rows + "C(,CI,1\n")
    env = {"GSX_RAW_DATA": str(tmp_path)}
    output = json.loads(gsx("prepare", "hiv-size", "--json", cwd=tmp_path, env=env).stdout)
    assert output["counts"] == {
        "train": 12, "id_val": 2, "id_test": 2, "ood_val": 2, "ood_test": 2,
    }  # fmt: skip
    shown = gsx("show", output["key"], cwd=tmp_path).stdout
    assert "left out: 1 rows of the raw file that RDKit cannot read" in shown
    rejected = gsx("prepare", "hiv-size", cwd=tmp_path)
    assert rejected.returncode == 2
    assert rejected.stderr.startswith(
        "Error (in gsx prepare): hiv-size needs hiv/HIV.csv.gz or hiv/HIV.csv, and no raw data "
        "directory is set.\n"
    )


def test_a_table_of_molecules_is_prepared_with_the_given_options(tmp_path):
    rows = "".join(f"{'C' * number},{number % 2},{number}\n" for number in range(1, 41))
    (tmp_path / "my mols.csv").write_text("mol,active,logp\n" + rows + "C(,1,2\n")
    words = ("prepare", "--smiles", "my mols.csv", "--smiles-column", "mol", "--target", "active",
             "--target", "logp", "--task", "regression", "--rule", "quantile", "--direction",
             "descending", "--ratios", "0.5/0.3/0.1", "--envs", "2")  # fmt: skip
    output = json.loads(gsx(*words, "--json", cwd=tmp_path).stdout)
    assert output["counts"] == {
        "train": 12, "id_val": 4, "id_test": 4, "ood_val": 12, "ood_test": 8,
    }  # fmt: skip
    shown = gsx("show", output["key"], cwd=tmp_path).stdout
    assert "my_mols" in shown
    assert "left out: 1 rows of the raw file that RDKit cannot read" in shown
    rejected = gsx(*words, "--strict", "--force", cwd=tmp_path)
    assert rejected.returncode == 4
    assert "my mols.csv: 1 of 41 SMILES are unreadable:\n  row 40: `C(`" in rejected.stderr


def test_strict_rejects_a_corpus_that_was_built_without_it(tmp_path):
    rows = "".join(f"{'C' * number},{number % 2}\n" for number in range(1, 41))
    (tmp_path / "mine.csv").write_text("smiles,active\n" + rows + "C(,1\n" + "N(,0\n" * 11)
    words = ("prepare", "--smiles", "mine.csv", "--target", "active")
    completed = gsx(*words, cwd=tmp_path)
    assert completed.returncode == 0
    assert (
        "prepare: left out: 12 rows of the raw file that RDKit cannot read, such as row 40: `C(`"
    ) in completed.stderr
    shown = gsx("show", completed.stdout.split()[1], cwd=tmp_path).stdout
    assert (
        "\n  row 40: `C(` is not a valid SMILES string\n"
        "  row 41: `N(` is not a valid SMILES string\n" in shown
    )
    assert shown.endswith("  …  (`--json` lists them)\n")
    rejected = gsx(*words, "--strict", cwd=tmp_path)
    assert rejected.returncode == 4
    assert "mine.csv: 12 of 52 SMILES are unreadable:\n  row 40: `C(`" in rejected.stderr


def test_generate_suggests_the_nearest_dataset_name(tmp_path):
    result = gsx("generate", "motif-sise", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == (
        "Error: no dataset and no corpus `motif-sise`. Did you mean `motif-size`?\n"
    )


def test_the_old_name_of_an_option_is_accepted_and_hidden(prepared):
    folder, result = prepared
    words = ("train", result["key"], "--dry-run", "--json")
    plans = [
        json.loads(gsx(*words, name, "vrex", cwd=folder).stdout)
        for name in ("--algorithm", "--learner")
    ]
    assert plans[0] == plans[1]
    assert plans[0] != json.loads(gsx(*words, cwd=folder).stdout)
    options = gsx("train", "--help").stdout.splitlines()
    assert any(line.startswith("  --algorithm NAME") for line in options)
    assert not any(line.startswith("  --learner") for line in options)
