"""Result tables in every format."""

import json

import pytest
from click.testing import CliRunner

from gsx.cli.main import cli
from gsx.errors import UsageError
from gsx.stages.train import results_table

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


def test_cells_have_mean_and_unbiased_std_over_seeds():
    cells = results_table.summarize(RESULTS, PUBLISHED)
    assert (cells[0].mean, cells[0].seeds, cells[0].published) == (52.0, 2, 51.74)
    assert cells[0].std == pytest.approx(2.8284, abs=1e-4)
    # 52 ± 12.706205 * 2.8284 / sqrt(2), t with one degree of freedom.
    assert (cells[0].low, cells[0].high) == (26.5876, 77.4124)
    assert (cells[1].std, cells[1].low, cells[1].published) == (None, None, None)
    assert [cell.method for cell in cells] == ["erm", "x_1", "g-splice"]


def test_markdown_has_a_column_of_published_results():
    assert results_table.markdown(results_table.summarize(RESULTS, PUBLISHED)).splitlines() == [
        "### motif-size",
        "",
        "| method | accuracy | published |",
        "|---|---|---|",
        "| erm | 52.0 ± 2.8 (2) | 51.7 ± 2.3 |",
        "| x_1 | 60.0 (1) |  |",
        "| g-splice |  | 86.5 ± 2.7 |",
    ]


def test_markdown_has_one_table_per_dataset():
    results = [*RESULTS, result("erm", 0, 0.1234, "dd-size", "mcc")]
    text = results_table.markdown(results_table.summarize(results, {}))
    assert text.startswith("### dd-size\n\n| method | mcc | published |")
    assert "\n\n### motif-size\n\n| method | accuracy | published |" in text


def test_latex_escapes_special_characters():
    lines = results_table.latex(results_table.summarize(RESULTS, {})).splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    assert lines[4] == r"erm & 52.0 $\pm$ 2.8 (2) &  \\"
    assert lines[5] == r"x\_1 & 60.0 (1) &  \\"


def test_csv_has_one_line_per_cell():
    lines = results_table.csv_text(results_table.summarize(RESULTS, {})).splitlines()
    assert lines[0] == "method,dataset,metric,mean,std,seeds,low,high,published,published_std"
    assert lines[2] == "x_1,motif-size,accuracy,60.0,,1,,,,"


def test_mcc_has_three_digits():
    cells = results_table.summarize([result("erm", 0, 0.1234, metric="mcc")], {})
    text = results_table.markdown(cells)
    assert "0.123 (1)" in text


def test_published_results_equal_the_paper(pytestconfig):
    published = results_table.read_published(pytestconfig.rootpath / "results" / "published.csv")
    assert published["g-splice", "motif-size"] == (86.53, 2.66)
    assert published["g-splice+r", "motif-base"] == (83.96, 7.38)
    assert published["erm", "hiv-scaffold"] == (69.58, 1.99)
    assert published["lisa", "dd-size"] == (0.20, 0.02)
    assert published["lisa-subgraph", "dd-size"] == (0.28, 0.03)


def test_other_json_files_are_counted(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(result("erm", 0, 50.0)))
    (tmp_path / "b.json").write_text("[1]")
    results, others = results_table.read_results(tmp_path)
    assert (len(results), others) == (1, 1)


def test_comparisons_in_deeper_folders_are_ignored(tmp_path):
    for folder in ("motif-size", "field/motif-size"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "erm-0.json").write_text(json.dumps(result("erm", 0, 50.0)))
    assert len(results_table.read_results(tmp_path)[0]) == 1
    assert len(results_table.read_results(tmp_path / "field")[0]) == 1


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([*RESULTS, result("erm", 1, 1.0)], "erm on motif-size: two result files have the same"),
        ([*RESULTS, result("erm", 5, 1.0, metric="mcc")], "motif-size have different metrics"),
    ],
)
def test_contradictory_results_are_rejected(results, message):
    with pytest.raises(UsageError, match=message):
        results_table.summarize(results, {})


def test_a_folder_without_results_is_rejected(tmp_path):
    with pytest.raises(UsageError, match="has no results"):
        results_table.read_results(tmp_path)
    with pytest.raises(UsageError, match="gsx train … --results DIR --method NAME"):
        results_table.read_results(tmp_path / "none")


def test_json_has_the_interval_of_every_mean(tmp_path):
    for seed, score in enumerate([50.0, 52.0, 54.0]):
        (tmp_path / f"{seed}.json").write_text(json.dumps(result("erm", seed, score)))
    output = CliRunner().invoke(cli, ["table", str(tmp_path), "--json"], catch_exceptions=False)
    (cell,) = json.loads(output.stdout)["cells"]
    assert (cell["mean"], cell["std"], cell["seeds"]) == (52.0, 2.0, 3)
    assert (cell["low"], cell["high"]) == (47.0317, 56.9683)


def test_lisa_and_lisa_subgraph_are_two_methods(pytestconfig):
    published = results_table.read_published(pytestconfig.rootpath / "results" / "published.csv")
    assert published["lisa", "motif-size"] == (53.68, 2.65)
    assert published["lisa-subgraph", "motif-size"] == (52.67, 2.77)
