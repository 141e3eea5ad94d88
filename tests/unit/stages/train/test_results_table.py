"""The table of results, in every format."""

import json

import pytest
from click.testing import CliRunner

from gsx.cli.main import cli
from gsx.errors import UsageError
from gsx.stages.train import results_table as tables

PUBLISHED = {("erm", "motif-size"): (51.74, 2.27), ("g-splice", "motif-size"): (86.53, 2.66)}


def result(method, seed, score, dataset="motif-size", metric="accuracy"):
    return {
        "dataset": dataset,
        "method": method,
        "seed": seed,
        "metric": metric,
        "ood_test": score,
    }


RESULTS = [result("erm", 0, 50.0), result("erm", 1, 54.0), result("x_1", 0, 60.0)]


def test_cells_hold_mean_and_unbiased_spread_over_seeds():
    cells = tables.summarize(RESULTS, PUBLISHED)
    assert (cells[0].mean, cells[0].seeds, cells[0].published) == (52.0, 2, 51.74)
    assert cells[0].std == pytest.approx(2.8284, abs=1e-4)
    # 52 ± 12.706205 * 2.8284 / sqrt(2), by Student with one degree of freedom.
    assert (cells[0].low, cells[0].high) == (26.5876, 77.4124)
    assert (cells[1].std, cells[1].low, cells[1].published) == (None, None, None)
    assert [cell.method for cell in cells] == ["erm", "x_1", "g-splice"]


def test_markdown_sets_published_numbers_beside_ours():
    assert tables.markdown(tables.summarize(RESULTS, PUBLISHED)).splitlines() == [
        "### motif-size",
        "",
        "| method | accuracy | published |",
        "|---|---|---|",
        "| erm | 52.0 ± 2.8 (2) | 51.7 ± 2.3 |",
        "| x_1 | 60.0 (1) |  |",
        "| g-splice |  | 86.5 ± 2.7 |",
    ]


def test_every_dataset_has_a_table_of_its_own():
    results = [*RESULTS, result("erm", 0, 0.1234, "dd-size", "mcc")]
    text = tables.markdown(tables.summarize(results, {}))
    assert text.startswith("### dd-size\n\n| method | mcc | published |")
    assert "\n\n### motif-size\n\n| method | accuracy | published |" in text


def test_latex_escapes_what_it_must():
    lines = tables.latex(tables.summarize(RESULTS, {})).splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    assert lines[4] == r"erm & 52.0 $\pm$ 2.8 (2) &  \\"
    assert lines[5] == r"x\_1 & 60.0 (1) &  \\"


def test_csv_has_a_line_per_cell():
    lines = tables.comma_separated(tables.summarize(RESULTS, {})).splitlines()
    assert lines[0] == "method,dataset,metric,mean,std,seeds,low,high,published,published_std"
    assert lines[2] == "x_1,motif-size,accuracy,60.0,,1,,,,"


def test_correlations_are_shown_with_three_digits():
    text = tables.markdown(tables.summarize([result("erm", 0, 0.1234, metric="mcc")], {}))
    assert "0.123 (1)" in text


def test_the_committed_published_numbers_are_those_of_the_paper(pytestconfig):
    found = tables.read_published(pytestconfig.rootpath / "results" / "published.csv")
    assert found["g-splice", "motif-size"] == (86.53, 2.66)
    assert found["g-splice+r", "motif-base"] == (83.96, 7.38)
    assert found["erm", "hiv-scaffold"] == (69.58, 1.99)
    assert found["lisa", "dd-size"] == (0.20, 0.02)
    assert found["lisa-subgraph", "dd-size"] == (0.28, 0.03)


def test_files_that_are_no_results_are_counted(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(result("erm", 0, 50.0)))
    (tmp_path / "b.json").write_text("[1]")
    found, others = tables.read_results(tmp_path)
    assert (len(found), others) == (1, 1)


def test_another_comparison_in_a_folder_below_is_left_alone(tmp_path):
    for place in ("motif-size", "field/motif-size"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "erm-0.json").write_text(json.dumps(result("erm", 0, 50.0)))
    assert len(tables.read_results(tmp_path)[0]) == 1
    assert len(tables.read_results(tmp_path / "field")[0]) == 1


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([*RESULTS, result("erm", 1, 1.0)], "erm on motif-size: two result files have the same"),
        ([*RESULTS, result("erm", 5, 1.0, metric="mcc")], "motif-size have different metrics"),
    ],
)
def test_results_that_contradict_each_other_are_refused(results, message):
    with pytest.raises(UsageError, match=message):
        tables.summarize(results, {})


def test_a_folder_without_results_says_how_to_make_some(tmp_path):
    with pytest.raises(UsageError, match="no results of `gsx train`"):
        tables.read_results(tmp_path)
    with pytest.raises(UsageError, match="gsx train … --results DIR --method NAME"):
        tables.read_results(tmp_path / "none")


def test_json_holds_the_interval_of_every_mean(tmp_path):
    for seed, score in enumerate([50.0, 52.0, 54.0]):
        (tmp_path / f"{seed}.json").write_text(json.dumps(result("erm", seed, score)))
    told = CliRunner().invoke(cli, ["table", str(tmp_path), "--json"], catch_exceptions=False)
    (cell,) = json.loads(told.stdout)["cells"]
    assert (cell["mean"], cell["std"], cell["seeds"]) == (52.0, 2.0, 3)
    assert (cell["low"], cell["high"]) == (47.0317, 56.9683)


def test_two_methods_that_differ_in_case_alone_are_two(pytestconfig):
    found = tables.read_published(pytestconfig.rootpath / "results" / "published.csv")
    assert found["lisa", "motif-size"] == (53.68, 2.65)
    assert found["lisa-subgraph", "motif-size"] == (52.67, 2.77)
