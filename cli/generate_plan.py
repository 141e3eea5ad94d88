"""Turn the command line of `gsx generate` or `gsx augment` into a plan: what must be made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gsx.cli.options import FORMATS
from gsx.cli.resolve_corpus import corpus_named
from gsx.errors import UsageError
from gsx.pipeline.plan import Step, make_plan
from gsx.pipeline.recipe import Recipe, parse_config, read_recipe
from gsx.pipeline.stage_order import stage_named
from gsx.stages.prepare.stage import FAMILIES
from gsx.storage.artifacts.store import Artifact, Store

QUICK: Mapping[str, dict[str, Any]] = {
    "extract": {"node_epochs": 4, "set_epochs": 2},
    "bridge": {"epochs": 4},
}
"""What pretraining is cut down to by ``--preset quick``."""
PRETRAINED = (
    ("extract", "extractor", "extractor"),
    ("bridge", "bridge_key", "bridge"),
    ("mask", "mask_key", "mask"),
)
"""Stages that generation may need: their option on the command line, and what they make."""
FEATX = (
    "featx_features", "featx_direction", "featx_shape", "featx_scale", "featx_rounds",
    "featx_partner", "featx_ends", "replicas",
)  # fmt: skip
"""Options that mean something with ``--featx`` alone."""
_RANGE = re.compile(r"(\d+)(?:\.\.(\d+))?")


def generating_plan(
    source: str, given: Mapping[str, Any], store: str | None
) -> tuple[tuple[Step, ...], dict[str, Artifact]]:
    """Return the steps to run and the artifacts that stand in for others."""
    if source.endswith(".toml"):
        return _from_recipe(source, given), {}
    place = Store.at(store)
    configs, artifacts = _source(source, given, place)
    wanted = _config("generate", _generate_options(given))
    needed = _stages_needed(wanted)
    for stage, option, kind in PRETRAINED:
        if given[option] is not None and stage not in needed:
            raise UsageError(f"--{kind} is not used by these options; leave it out")
        if given[option] is not None:
            artifacts[stage] = place.resolve(given[option], kind=kind)
        elif stage in needed:
            options = dict(QUICK.get(stage, {})) if given["preset"] == "quick" else {}
            if stage == "bridge":
                options |= _bridge_options(given)
            if stage == "mask" and given["domains"]:
                options["domains"] = given["domains"]
            configs[stage] = _config(stage, options)
    configs["generate"] = wanted
    return make_plan(Recipe("generate", configs)), artifacts


def augmenting_plan(
    source: str, given: Mapping[str, Any], store: str | None
) -> tuple[tuple[Step, ...], dict[str, Artifact]]:
    """Return the steps that augment a dataset or a corpus, and the artifact that stands for one."""
    configs, artifacts = _source(source, given, Store.at(store))
    names = ("method", "rate", "masked", "pairs", "replicas", "ratio", "count", "seed",
             "shard_graphs")  # fmt: skip
    options = _some(given, *names)
    if given["mix"] is not None:
        options["mix"] = _interval(given["mix"])
    if given["form"] is not None:
        options["formats"] = FORMATS[given["form"]]
    if given["augmented_only"]:
        options["augmented_only"] = True
    configs["augment"] = _config("augment", options)
    return make_plan(Recipe("augment", configs)), artifacts


def _source(
    source: str, given: Mapping[str, Any], place: Store
) -> tuple[dict[str, Any], dict[str, Artifact]]:
    """Return the config that prepares a dataset, or the corpus that was named."""
    if any(source in (*family.names, *family.aliases) for family in FAMILIES):
        options = {"dataset": source, "raw": given["raw"], **_some(given, "num_graphs")}
        return {"prepare": _config("prepare", options)}, {}
    if given["num_graphs"] is not None:
        raise UsageError("--num-graphs is for a dataset that is prepared first, not a corpus")
    return {}, {"prepare": corpus_named(place, source)}


def _from_recipe(source: str, given: Mapping[str, Any]) -> tuple[Step, ...]:
    recipe = read_recipe(Path(source), raw=given["raw"])
    extra = [
        name
        for name, value in given.items()
        if name != "raw" and value not in (None, False, "default", ())
    ]
    if extra:
        raise UsageError(
            f"a recipe says it all: write `{extra[0]}` into {source}, or name a dataset instead"
        )
    if "generate" not in recipe.configs:
        raise UsageError(f"{source} has no section `[generate]`. Add one, or use `gsx run`.")
    return make_plan(recipe)


def _generate_options(given: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "ratio", "count", "partners", "labels", "fragments", "grow", "chords", "ports", "attach",
        "bridge_count", "seed", "shard_graphs",
    )  # fmt: skip
    options = _some(given, *names) | _featx_options(given)
    if given["code"] is not None:
        options["options"] = given["code"]
    if given["f"] is not None:
        options["f"] = _range(given["f"])
    if given["form"] is not None:
        options["formats"] = FORMATS[given["form"]]
    if given["bridges"] in ("random", "none"):
        options["bridges"] = given["bridges"]
    if given["fixed_attributes"]:
        options["attributes"] = "fixed"
    for flag in ("balanced", "bridge_nodes", "augmented_only"):
        if given[flag]:
            options[flag] = True
    return options


def _featx_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of moved features; without options of splicing they are moved alone."""
    options = _some(given, *FEATX)
    if given["domains"]:
        if given["mask_key"] is not None:
            raise UsageError(
                "a mask has the domains it was learned with; leave --mask or --domain out"
            )
        if not given["featx"]:
            raise UsageError("--domain is for moved features; add --featx")
    if given["featx"]:
        return {"featx": True, "options": "000", **options}
    if options:
        name = next(iter(options)).replace("_", "-")
        raise UsageError(f"--{name} is for moved features; add --featx")
    return {}


def _bridge_options(given: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if given["bridges"] == "diffusion":
        options["model"] = "diffusion"
    if given["bridge_nodes"]:
        options["bridge_nodes"] = True
    return options


def _some(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if given[name] is not None}


def _range(text: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--f takes a number or a range such as 2..4; got `{text}`")
    low = int(found[1])
    return low, int(found[2] or low)


def _interval(text: str) -> tuple[float, float]:
    low, _, high = text.partition("..")
    try:
        return float(low), float(high or low)
    except ValueError as error:
        raise UsageError(f"--mix takes a range such as 0.1..0.2; got `{text}`") from error


def _stages_needed(config: Any) -> set[str]:  # noqa: ANN401
    return set(stage_named("generate").inputs_of(config).values())


def _config(stage: str, options: Mapping[str, Any]) -> Any:  # noqa: ANN401
    return parse_config(stage, options, f"gsx {stage}")
