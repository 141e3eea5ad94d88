"""Turn the options of `gsx generate` and `gsx augment` into a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gsx.errors import UsageError
from gsx.pipeline.commands.option_values import FORMATS, Options
from gsx.pipeline.commands.resolve_corpus import resolve_corpus
from gsx.pipeline.named_recipes import NamedRecipe, named_recipe
from gsx.pipeline.plan import Step, make_plan
from gsx.pipeline.pretraining_presets import preset_options
from gsx.pipeline.recipe import Recipe, parse_config, read_recipe
from gsx.pipeline.stage_order import stage_named
from gsx.stages.prepare.stage import FAMILIES
from gsx.storage.artifacts.store import Artifact, Store

PRETRAINED_STAGES = (
    ("extract", "extractor", "extractor"),
    ("bridge", "bridge_key", "bridge"),
    ("mask", "mask_key", "mask"),
)
"""Stages that generation may need: name, option of the command line, kind of artifact."""
FEATX_OPTIONS = (
    "featx_features", "featx_direction", "featx_shape", "featx_scale", "featx_rounds",
    "featx_partner", "featx_ends", "replicas",
)  # fmt: skip
"""Options that need ``--featx``."""
RECIPE_NAMES = {"option_bits": "options", "file_format": "formats"}
"""Options of the command line that have another name in a recipe."""
OPTION_NAMES = {
    "option_bits": "options",
    "mask_key": "mask",
    "bridge_key": "bridge",
    "feature_ranges": "feature-range",
}
"""Arguments of commands whose option has another name."""
BRIDGES = {"vae": "learned", "diffusion": "learned", "random": "random", "none": "none"}
"""Value of `--bridges` → option `bridges` of the stage."""
GENERAL_OPTIONS = {
    "raw",
    "num_graphs",
    "seed",
    "shard_graphs",
    "file_format",
    "augmented_only",
    "preset",
}
"""Options of `gsx generate` that do not decide how graphs are made."""
AUGMENT_OPTIONS = {"ratio", "count", "replicas"}
"""Options of `gsx generate` that recipes of `augment` have too."""
_RANGE = re.compile(r"(\d+)(?:\.\.(\d+))?")

Source = str | Artifact
"""Name of a recipe file, dataset or corpus; or a corpus."""


def make_generate_plan(
    source: Source, options: Options, store: Store
) -> tuple[tuple[Step, ...], dict[str, Artifact]]:
    """Return the steps to run, and the artifacts that replace other steps."""
    if isinstance(source, str) and source.endswith(".toml"):
        return _recipe_plan(source, options), {}
    recipe = None if options["recipe"] is None else named_recipe(options["recipe"], "--recipe")
    if recipe is not None and recipe.stage != "generate":
        return _other_recipe_plan(recipe, source, options, store)
    configs, artifacts = _source(source, options, store)
    generate_config = _config("generate", _generate_options(options, recipe))
    needed = set(stage_named("generate").inputs_of(generate_config).values())
    for stage, option, kind in PRETRAINED_STAGES:
        if options[option] is not None and stage not in needed:
            raise UsageError(f"--{kind} has no effect with these options; leave it out")
        if options[option] is not None:
            artifacts[stage] = store.resolve(options[option], kind=kind)
        elif stage in needed:
            stage_options = preset_options(stage, options["preset"])
            stage_options |= {} if recipe is None else recipe.pretrain.get(stage, {})
            if stage == "bridge":
                stage_options |= _bridge_options(options)
            if stage == "mask" and options["feature_ranges"]:
                stage_options["feature_ranges"] = options["feature_ranges"]
            configs[stage] = _config(stage, stage_options)
    configs["generate"] = generate_config
    return make_plan(Recipe("generate", configs)), artifacts


def _other_recipe_plan(
    recipe: NamedRecipe, source: Source, options: Options, store: Store
) -> tuple[tuple[Step, ...], dict[str, Artifact]]:
    """Return the plan of a recipe of `augment`, or of the recipe that adds no graphs."""
    allowed = {*GENERAL_OPTIONS, "recipe", "budget"} | (AUGMENT_OPTIONS if recipe.stage else set())
    for name, value in options.items():
        if name not in allowed and value not in (None, False, ()):
            raise UsageError(
                f"--{OPTION_NAMES.get(name, name.replace('_', '-'))} has no effect with the recipe "
                f"`{recipe.name}`; leave it out"
            )
    if recipe.stage is None:
        configs, artifacts = _source(source, options, store)
        return make_plan(Recipe("prepare", configs)), artifacts
    return make_augment_plan(source, {**options, "method": recipe.name}, store)


def make_augment_plan(
    source: Source, options: Options, store: Store
) -> tuple[tuple[Step, ...], dict[str, Artifact]]:
    """Return the steps that augment a dataset or a corpus, and the artifacts that replace steps."""
    configs, artifacts = _source(source, options, store)
    names = ("method", "rate", "masked", "pairs", "replicas", "ratio", "count", "seed",
             "shard_graphs")  # fmt: skip
    stage_options = {name: options[name] for name in names if options.get(name) is not None}
    if options.get("mix") is not None:
        stage_options["mix"] = _parse_interval(options["mix"])
    if options["file_format"] is not None:
        stage_options["formats"] = FORMATS[options["file_format"]]
    if options["augmented_only"]:
        stage_options["augmented_only"] = True
    configs["augment"] = _config("augment", stage_options)
    return make_plan(Recipe("augment", configs)), artifacts


def source_plan(
    source: Source, options: Options, store: Store
) -> tuple[tuple[Step, ...], dict[str, Artifact]]:
    """Return the step that prepares a dataset, or no step and the existing corpus."""
    configs, artifacts = _source(source, options, store)
    return make_plan(Recipe("prepare", configs)), artifacts


def _source(
    source: Source, options: Options, store: Store
) -> tuple[dict[str, Any], dict[str, Artifact]]:
    """Return the config that prepares a dataset, or the existing corpus."""
    if isinstance(source, str) and any(
        source in (*family.names, *family.aliases) for family in FAMILIES
    ):
        prepare_options = {
            "dataset": source, "raw": options["raw"], **_given(options, "num_graphs")
        }  # fmt: skip
        return {"prepare": _config("prepare", prepare_options)}, {}
    corpus = resolve_corpus(store, source)
    if options["num_graphs"] is not None:
        raise UsageError("--num-graphs applies to datasets only; SOURCE is a corpus. Leave it out.")
    return {}, {"prepare": corpus}


def _recipe_plan(path: str, options: Options) -> tuple[Step, ...]:
    """Return the plan of a recipe; other options are errors."""
    recipe = read_recipe(Path(path), raw=options["raw"])
    unexpected = [
        name
        for name, value in options.items()
        if name != "raw" and value not in (None, False, "default", ())
    ]
    if unexpected:
        name = RECIPE_NAMES.get(unexpected[0], unexpected[0])
        raise UsageError(
            f"a recipe takes no options from the command line: write `{name}` into {path}, or "
            "name a dataset instead"
        )
    if "generate" not in recipe.configs:
        raise UsageError(f"{path} has no section `[generate]`. Add one, or use `gsx run`.")
    return make_plan(recipe)


def _generate_options(options: Options, recipe: NamedRecipe | None) -> dict[str, Any]:
    """Return the options of the stage `generate`; they override those of the recipe."""
    names = (
        "ratio", "count", "partners", "labels", "label_conflicts", "min_causal_nodes", "fragments",
        "grow", "chords", "ports", "attach", "bridge_count", "seed", "shard_graphs",
    )  # fmt: skip
    stage_options = _given(options, *names) | _featx_options(options, recipe)
    if recipe is not None:
        stage_options["recipe"] = recipe.name
    if options["option_bits"] is not None:
        stage_options["options"] = options["option_bits"]
    if options["f"] is not None:
        stage_options["f"] = _parse_range(options["f"])
    if options["file_format"] is not None:
        stage_options["formats"] = FORMATS[options["file_format"]]
    if options["bridges"] is not None:
        stage_options["bridges"] = BRIDGES[options["bridges"]]
    if options["fixed_attributes"]:
        stage_options["attributes"] = "fixed"
    for flag in ("balanced", "bridge_nodes", "augmented_only"):
        if options[flag]:
            stage_options[flag] = True
    return stage_options


def _featx_options(options: Options, recipe: NamedRecipe | None) -> dict[str, Any]:
    """Return the FeatX options.

    ``--featx`` turns splicing off, unless ``--options`` is given or a recipe splices.
    """
    stage_options = _given(options, *FEATX_OPTIONS)
    featx = options["featx"] or (recipe is not None and recipe.options.get("featx", False))
    if options["feature_ranges"]:
        if options["mask_key"] is not None:
            raise UsageError(
                "--mask and --feature-range exclude each other: a mask has the feature ranges it "
                "was trained with. Leave one of them out."
            )
        if not featx:
            raise UsageError("--feature-range applies to feature extrapolation; add --featx")
    if featx:
        splicing = {} if recipe is not None else {"options": "000"}
        return {"featx": True, **splicing, **stage_options}
    if stage_options:
        name = next(iter(stage_options)).replace("_", "-")
        raise UsageError(f"--{name} applies to feature extrapolation; add --featx")
    return {}


def _bridge_options(options: Options) -> dict[str, Any]:
    """Return the options of the stage `bridge`."""
    stage_options: dict[str, Any] = {}
    if options["bridges"] == "diffusion":
        stage_options["model"] = "diffusion"
    if options["bridge_nodes"]:
        stage_options["bridge_nodes"] = True
    return stage_options


def _given(options: Options, *names: str) -> dict[str, Any]:
    """Return the named options that are not None."""
    return {name: options[name] for name in names if options[name] is not None}


def _parse_range(value: str | int | tuple[int, int]) -> tuple[int, int]:
    text = value if isinstance(value, str) else _range_text(value)
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--f takes a number or a range such as 2..4; got `{text}`")
    low = int(match[1])
    return low, int(match[2] or low)


def _parse_interval(value: str | float | tuple[float, float]) -> tuple[float, float]:
    text = value if isinstance(value, str) else _range_text(value)
    low, _, high = text.partition("..")
    try:
        return float(low), float(high or low)
    except ValueError as error:
        raise UsageError(f"--mix takes a range such as 0.1..0.2; got `{text}`") from error


def _range_text(value: object) -> str:
    """Return a number, or a pair of numbers, as the command line takes it."""
    if isinstance(value, tuple | list) and len(value) == 2:
        return f"{value[0]}..{value[1]}"
    return str(value)


def _config(stage: str, options: Mapping[str, Any]) -> Any:  # noqa: ANN401
    return parse_config(stage, options, f"gsx {stage}")
