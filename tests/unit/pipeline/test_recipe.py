"""Recipes: valid ones, and the exact error messages of invalid ones."""

import pytest

from gsx.errors import RecipeError, UsageError
from gsx.pipeline.recipe import parse_config, parse_recipe, read_recipe
from gsx.stages.prepare.stage import PrepareConfig


def error_message(text):
    """Return the message of the error that a recipe raises."""
    with pytest.raises(UsageError) as caught:
        parse_recipe(text, "motif.toml")
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_configs_are_resolved_and_in_the_order_of_the_pipeline():
    recipe = parse_recipe('[describe]\n[prepare]\ndataset = "motif-basis"\n', "motif.toml")
    assert recipe.name == "motif"
    assert list(recipe.configs) == ["prepare", "describe"]
    assert recipe.configs["prepare"].dataset == "motif-base"
    assert recipe.configs["prepare"].num_graphs == 30_000


def test_an_unknown_option_is_an_error_with_a_suggestion():
    text = error_message('[prepare]\ndataset = "motif-size"\nnum_graph = 10\n')
    assert text == ("motif.toml [prepare]: unknown option `num_graph`. Did you mean `num_graphs`?")


def test_an_option_without_similar_names_lists_the_known_ones():
    text = error_message("[prepare]\nxyzzy = 1\n")
    known = ", ".join(f"`{name}`" for name in sorted(PrepareConfig.__struct_fields__))
    assert text == f"motif.toml [prepare]: unknown option `xyzzy`. Known: {known}."


def test_an_unknown_section_is_an_error_with_a_suggestion():
    assert error_message("[prepar]\n") == (
        "motif.toml: unknown section `[prepar]`. Did you mean `prepare`?"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "motif.toml has no sections. Start with a section `[prepare]`."),
        ("prepare = 3", "motif.toml: `prepare` must be a section `[prepare]`, not a value"),
        ("[prepare]\n", "motif.toml [prepare]: missing option `dataset`"),
        ("[prepare]\ndataset = 3", "motif.toml [prepare]: `dataset`: Expected `str`, got `int`"),
        (
            '[prepare]\ndataset = "motif-size"\nseed = "a"',
            "motif.toml [prepare]: `seed`: Expected `int`, got `str`",
        ),
        (
            '[prepare]\ndataset = "motif-size"\nformats = ["hdf5"]',
            "motif.toml [prepare]: `formats` cannot be `hdf5`. Known: `parquet`, `zarr`.",
        ),
        (
            "[describe]\n",
            "motif.toml: `[describe]` needs the artifact of `[prepare]`. Add a section "
            "`[prepare]`.",
        ),
        (
            '[prepare]\ndataset = "motif-sise"',
            "no dataset `motif-sise`. Did you mean `motif-size`?",
        ),
        (
            '[prepare]\ndataset = "motif-size"\nshard_graphs = 0',
            "shard_graphs must be at least 1 (found 0)",
        ),
        (
            '[prepare]\ndataset = "motif-size"\nformats = []',
            "formats must be `parquet`, `zarr` or both, each once",
        ),
        (
            '[prepare]\ndataset = "motif-size"\nnum_graphs = -5',
            "num_graphs must be in 1..10000000000 (found -5)",
        ),
    ],
)
def test_invalid_recipes_are_rejected_before_anything_runs(text, message):
    assert error_message(text) == message


def test_an_error_in_a_config_has_a_note_with_its_section():
    with pytest.raises(UsageError) as caught:
        parse_config("prepare", {"dataset": "nope"}, "motif.toml [prepare]")
    assert caught.value.__notes__ == ["in motif.toml [prepare]"]


def test_a_syntax_error_is_reported_with_its_line():
    assert error_message("[prepare\n").startswith("motif.toml is not TOML: ")
    assert "line 1" in error_message("[prepare\n")


def test_a_missing_recipe_is_reported_with_advice(tmp_path):
    with pytest.raises(RecipeError, match="Write one, or start from a file in `examples/`"):
        read_recipe(tmp_path / "none.toml")


def test_a_recipe_that_is_not_text_is_rejected(tmp_path):
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match="cannot be read"):
        read_recipe(path)
