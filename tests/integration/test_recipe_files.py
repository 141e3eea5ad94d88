"""Recipe files: names and values of the command line, and the page that documents them."""

import json

import msgspec
import pytest

from gsx.errors import RecipeError
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.recipe_reference import field_meanings, recipe_file_reference
from gsx.pipeline.recipe_values import COMMAND_LINE_ONLY
from gsx.pipeline.stage_order import STAGES
from gsx.stages.train.algorithms.options import OPTIONS
from tests.support.artifacts import gsx

MOTIF = '[prepare]\ndataset = "motif-size"\nnum_graphs = 90\n'


def configs(text):
    return parse_recipe(text, "mine.toml").configs


@pytest.mark.parametrize("model", ["vae", "diffusion"])
def test_values_of_the_command_line(model):
    text = f'[generate]\noptions = "001"\nbridges = "{model}"\nf = "2..3"\nformat = "both"\n'
    parsed = configs(MOTIF + text)
    assert parsed["generate"].bridges == "learned"
    assert parsed["bridge"].model == model
    assert parsed["generate"].f == (2, 3)
    assert parsed["generate"].formats == ("parquet", "zarr")
    same = '[bridge]\nmodel = "diffusion"\n[generate]\noptions = "001"\nf = [2, 3]\n'
    other = configs(MOTIF + same + 'formats = ["zarr", "parquet"]\n')
    assert (other == parsed) == (model == "diffusion")


def test_names_of_the_command_line(tmp_path):
    table = tmp_path / "mine.csv"
    table.write_text("smiles,y\n" + "".join(f"{'C' * (n + 1)},{n % 2}\n" for n in range(60)))
    short = f'[prepare]\nsmiles = "{table}"\ntarget = "y"\nenvs = 2\nratios = "0.7/0.1/0.1"\n'
    long = (
        f'[prepare]\ndataset = "smiles"\nfile = "{table}"\ntargets = ["y"]\nenvironments = 2\n'
        "ratios = [0.7, 0.1, 0.1]\n"
    )
    train = '[train]\nsource = "prepare"\n'
    one = configs(short + train + 'algorithm = "vrex"\norigin = "g_whole"\n')
    two = configs(long + train + 'learner = "vrex"\norigins = ["g_whole"]\n')
    assert one == two
    assert configs(short + train + "source_only = true\n")["train"].augmented is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[generate]\noptions = "001"\nbridges = "vea"\n', "`bridges` cannot be `vea`. Did you "
         "mean `vae`? Known: `vae`, `diffusion`, `learned`, `random`, `none`."),
        ('[generate]\nf = "2-3"\n', "`f` is `2-3`; expected LOW..HIGH or a list."),
        ('[bridge]\nmodel = "vae"\n[generate]\nbridges = "diffusion"\n', "Leave one of them out."),
        ('[train]\nalgorithm = "erm"\nlearner = "erm"\n', "are the same option. Give one."),
        ('[train]\nsource_only = true\naugmented = true\n', "not both"),
    ],
)  # fmt: skip
def test_mistakes(text, message):
    with pytest.raises(RecipeError) as error:
        configs(MOTIF + text)
    assert message in str(error.value)


def test_two_sources_exclude_each_other():
    with pytest.raises(RecipeError, match="`smiles`, `dataset` exclude each other"):
        configs(MOTIF + 'smiles = "x.csv"\n')


def test_every_option_of_every_section_is_documented():
    page = recipe_file_reference()
    for stage in STAGES:
        meanings = field_meanings(stage.config)
        section = page.partition(f"## [{stage.name}]")[2].partition("\n## [")[0]
        for field in msgspec.structs.fields(stage.config):
            assert meanings.get(field.name) or field.name in OPTIONS, (stage.name, field.name)
            listed = field.name not in COMMAND_LINE_ONLY.get(stage.name, ())
            assert (f"\n| `{field.name}` | " in section) is listed


def test_the_command_line_accepts_the_values_of_recipes(tmp_path):
    words = ("generate", "motif-size", "--num-graphs", 90, "--options", "001", "--dry-run",
             "--store", tmp_path, "--json")  # fmt: skip
    assert gsx(*words, "--bridges", "learned").out == gsx(*words, "--bridges", "vae").out


def test_a_run_prints_the_scores_of_its_model(tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(MOTIF + '[train]\nsource = "prepare"\nepochs = 1\nwidth = 8\n')
    words = ("run", recipe, "--store", tmp_path / "store")
    shown = gsx(*words)
    assert shown.code == 0, shown.err
    assert "last epoch (selected)" in shown.out
    assert "OOD_TEST" in shown.out
    steps = json.loads(gsx(*words, "--json").out)["steps"]
    assert "ood_test" in steps[-1]["scores"]["selection"]["last"]
    assert "scores" not in steps[0]


def test_a_recipe_cannot_write_outside_of_the_store(tmp_path):
    text = '[prepare]\ndataset = "motif-size"\n[train]\nlog = ["csv:/tmp/x.csv"]\n'
    with pytest.raises(RecipeError, match=r"r.toml \[train\]: `log` is not an option of recipes"):
        parse_recipe(text, "r.toml")
