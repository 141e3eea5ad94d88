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


def with_ids(results, *scores):
    return [
        {**row, "id_test": value, "epochs": 20} for row, value in zip(results, scores, strict=True)
    ]


def test_markdown_has_id_and_ood_scores_gains_and_published_results():
    results = with_ids(RESULTS, 90.0, 92.0, None)
    assert results_table.markdown(results_table.summarize(results, PUBLISHED)).splitlines() == [
        "### motif-size: accuracy ↑",
        "",
        "| method | id_test | ood_test | gain over erm | epochs | published |",
        "|---|---|---|---|---|---|",
        "| erm | 91.0 ± 1.4 (2) | 52.0 ± 2.8 (2) |  | 20 | 51.7 ± 2.3 |",
        "| x_1 |  | 60.0 (1) | +10.0 | 20 |  |",
        "| g-splice |  |  |  |  | 86.5 ± 2.7 |",
    ]


def test_gains_are_paired_by_seed_and_have_an_interval():
    results = [result("none", 0, 50.0), result("none", 1, 60.0), result("none", 2, None)]
    results += [result("x", 0, 53.0), result("x", 1, 64.0), result("x", 2, 99.0)]
    cell = results_table.summarize(results, {})[1]
    assert (cell.baseline, cell.gain, cell.gain_seeds) == ("none", 3.5, 2)
    # 3.5 ± 12.706205 * 0.707107 / sqrt(2)
    assert (cell.gain_low, cell.gain_high) == (-2.8531, 9.8531)
    assert results_table.gain_text(cell) == "+3.5 (-2.9 to +9.9)"


def test_a_lower_error_is_a_gain():
    results = [result("erm", 0, 1.5, metric="rmse"), result("x", 0, 1.25, metric="rmse")]
    cells = results_table.summarize(results, {})
    assert cells[1].gain == 0.25
    text = results_table.markdown(cells)
    assert "### motif-size: rmse ↓" in text
    assert "| x |  | 1.250 (1) | +0.250 |  |" in text


def test_another_baseline_can_be_named():
    cells = results_table.summarize(RESULTS, {}, "x_1")
    assert [(cell.method, cell.gain) for cell in cells] == [("erm", -10.0), ("x_1", None)]
    with pytest.raises(UsageError, match=r"no method `x_2` among the results\. Did you mean `x_1`"):
        results_table.summarize(RESULTS, {}, "x_2")


def test_without_a_baseline_or_published_scores_there_are_no_such_columns():
    text = results_table.markdown(results_table.summarize([result("x", 0, 1.0)], {}))
    assert "| method | id_test | ood_test | epochs |" in text


def test_runs_of_different_lengths_list_all_epochs():
    results = [{**row, "epochs": epochs} for row, epochs in zip(RESULTS, (20, 40, 10), strict=True)]
    text = results_table.markdown(results_table.summarize(results, {}))
    assert "| erm |  | 52.0 ± 2.8 (2) |  | 20 or 40 |" in text


def test_the_results_page_has_a_column_of_published_results():
    cells = results_table.summarize(RESULTS, PUBLISHED)
    assert results_table.published_markdown(cells).splitlines() == [
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
    assert text.startswith("### dd-size: mcc ↑\n\n| method | id_test | ood_test |")
    assert "\n\n### motif-size: accuracy ↑\n\n| method |" in text


def test_latex_escapes_special_characters():
    lines = results_table.latex(results_table.summarize(RESULTS, PUBLISHED)).splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[2] == r"method & motif-size ID & motif-size OOD & motif-size published \\"
    assert lines[4] == r"erm &  & 52.0 $\pm$ 2.8 (2) & 51.7 $\pm$ 2.3 \\"
    assert lines[5] == r"x\_1 &  & 60.0 (1) &  \\"


def test_csv_has_one_line_per_cell():
    lines = results_table.csv_text(
        results_table.summarize(with_ids(RESULTS, 9, 9, 9), {})
    ).splitlines()
    assert lines[0] == (
        "method,dataset,metric,mean,std,seeds,low,high,published,published_std,id_mean,id_std,"
        "id_seeds,baseline,gain,gain_low,gain_high,gain_seeds,epochs"
    )
    assert lines[2] == "x_1,motif-size,accuracy,60.0,,1,,,,,9.0,,1,erm,10.0,,,1,20"


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
