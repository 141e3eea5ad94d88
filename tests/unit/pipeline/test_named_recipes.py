"""Named recipes: every one is valid, applies to the data it states, and can be used in files."""

import json

import msgspec
import pytest

from gsx.errors import RecipeError, UsageError
from gsx.pipeline.named_recipes import named_recipe, named_recipes
from gsx.pipeline.recipe import parse_config, parse_recipe
from gsx.schema import CorpusInfo, corpus_columns

RECIPES = named_recipes()


def info(**changes):
    outputs = changes.pop("outputs", ("a", "b"))
    level = changes.get("level", "graph")
    columns = corpus_columns(outputs=len(outputs), num_features=2, level=level)
    base = CorpusInfo(
        name="test",
        outputs=outputs,
        domain="size",
        environments=(),
        columns=columns,
        num_features=2,
    )
    return msgspec.structs.replace(base, **changes)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_texts_and_valid_options(name):
    recipe = RECIPES[name]
    assert all(len(text) > 5 for text in (recipe.title, recipe.summary, recipe.labels))
    assert recipe.summary.endswith(".")
    assert "\n" not in recipe.summary
    if recipe.stage is not None:
        config = json.loads(msgspec.json.encode(recipe.config()))
        assert {key: config[key] for key in recipe.options} == recipe.options


def test_only_one_recipe_adds_no_graphs():
    assert [name for name, recipe in RECIPES.items() if recipe.stage is None] == ["none"]


def test_every_recipe_of_the_issue_exists():
    expected = {"none", "paper", "combine-average", "combine-any", "combine-all",
                "combine-same-class", "combine-any-balanced", "combine-all-balanced",
                "combine-same-class-balanced", "swap", "shrink", "grow", "grow-fragments",
                "featx", "featx-ranked", "grow-featx", "drop-node", "drop-edge", "mask-feature",
                "g-mixup"}  # fmt: skip
    assert expected <= set(RECIPES)


@pytest.mark.parametrize(
    ("name", "corpus", "molecules", "reason"),
    [
        ("combine-any", info(), False, "needs binary or multitask targets"),
        ("combine-any", info(task="multitask"), False, None),
        ("combine-any", info(task="binary", outputs=("active",)), True, None),
        ("combine-same-class", info(task="regression"), False, "needs classes"),
        ("combine-same-class", info(task="binary", outputs=("active",)), False, None),
        ("combine-same-class", info(task="multitask"), False, "needs classes"),
        ("combine-average", info(task="regression"), False, None),
        ("combine-sum", info(task="regression"), False, None),
        ("combine-size-scaled", info(task="binary"), False, "needs regression targets"),
        ("grow", info(), True, "not for molecules"),
        ("grow", info(level="node"), False, "needs graph-level targets"),
        ("featx", info(level="node"), False, None),
        ("drop-edge", info(level="node"), False, None),
        ("none", info(level="node"), False, None),
    ],
)
def test_obstacles(name, corpus, molecules, reason):
    assert named_recipe(name).obstacle(corpus, molecules=molecules) == reason


def test_an_unknown_name_is_an_error_with_a_guess():
    with pytest.raises(RecipeError, match=r"unknown recipe `grwo`.*Did you mean `grow`"):
        named_recipe("grwo")


def test_a_section_uses_a_recipe_and_overrides_it():
    config = parse_config("generate", {"recipe": "combine-any", "seed": 3}, "test")
    assert (config.options, config.labels, config.ratio, config.seed) == ("001", "any", 0.5, 3)
    config = parse_config("generate", {"recipe": "combine-any", "labels": "all"}, "test")
    assert config.labels == "all"
    config = parse_config("generate", {"recipe": "combine-any", "count": 7}, "test")
    assert (config.ratio, config.count) == (None, 7)


def test_a_recipe_has_the_key_of_its_options():
    spelled = parse_config("generate", RECIPES["grow"].options, "test")
    assert parse_config("generate", {"recipe": "grow"}, "test") == spelled


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ('[generate]\nrecipe = "drop-node"', r"belongs in the section `\[augment\]`"),
        ('[generate]\nrecipe = "none"', "adds no graphs. Remove the section"),
        ('[generate]\nrecipe = "auto"', "Run `gsx recommend`"),
        ("[generate]\nrecipe = 3", "must be a name"),
        ('[train]\nrecipe = "grow"', "unknown option `recipe`"),
    ],
)
def test_a_section_with_a_recipe_that_does_not_fit_is_an_error(section, text):
    with pytest.raises(RecipeError, match=text):
        parse_recipe(f'[prepare]\ndataset = "motif-size"\n{section}', "own.toml")


def test_a_recipe_file_with_a_recipe():
    recipe = parse_recipe(
        '[prepare]\ndataset = "motif-size"\n[augment]\nrecipe = "drop-node"\nrate = 0.3', "own.toml"
    )
    assert (recipe.configs["augment"].method, recipe.configs["augment"].rate) == ("drop-node", 0.3)


def test_pretraining_options_of_a_recipe_are_valid_and_are_defaults_of_a_file():
    for recipe in RECIPES.values():
        assert set(recipe.pretrain) <= set(recipe.pretrained)
        for stage, options in recipe.pretrain.items():
            parse_config(stage, options, recipe.name)
    text = """
        [prepare]
        dataset = "motif-size"
        [extract]
        subgraph_samples = 2
        [bridge]
        [generate]
        recipe = "paper-literal"
        ratio = 1
    """
    configs = parse_recipe(text, "r.toml").configs
    assert configs["extract"].extractor == "pair"
    assert configs["extract"].subgraph_samples == 2  # the file wins
    assert configs["bridge"].kl_weight == 0.1
    assert configs["generate"].bridge_count == "sampled"


def test_samples_need_node_probabilities():
    with pytest.raises(UsageError, match="subgraph_samples needs node probabilities"):
        parse_config("extract", {"subgraph_samples": 2}, "test")
    with pytest.raises(UsageError, match=r"subgraph_samples must be in 0\.\.64; got 65"):
        parse_config("extract", {"extractor": "pair", "subgraph_samples": 65}, "test")
