"""Functions that open and build corpora: open, prepare, generate, augment, run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from gsx.api.call import (
    as_corpus,
    as_text,
    as_tuple,
    choose_store,
    open_session,
    public,
    raw_folder,
    rename_options,
    source_of,
)
from gsx.api.options import (
    AugmentOptions,
    DatasetOptions,
    GenerateOptions,
    PrepareOptions,
    RunOptions,
    StoreLike,
    UserDataOptions,
)
from gsx.errors import UsageError

if TYPE_CHECKING:
    from gsx.api.models import Model
    from gsx.api.recommendation import Recommendation
    from gsx.pipeline.recommend.evidence import Evidence
    from gsx.storage.artifacts.store import Artifact
    from gsx.storage.artifacts.store import Store as ArtifactStore
    from gsx.storage.corpora.corpus import Corpus

_PREPARE_NAMES = {
    "format": "file_format", "formats": "file_format", "environments": "envs",
    "target": "targets", "feature_column": "feature_columns",
}  # fmt: skip
_PREPARE_PATHS = ("smiles", "tu", "ogb", "pyg", "good", "nodes", "edges")
_PREPARE_FLAGS = ("divide_domains", "strict")
_PREPARE_LISTS = ("targets", "feature_columns")
_PREPARE_OTHERS = (
    "num_graphs", "shard_graphs", "envs", "protocol", "features", "bases", "val_bases",
    "test_bases", "motifs", "name", "smiles_column", "id_column", "task", "metric", "domain",
    "rule", "direction", "ratios", "min_test_per_class", "split_column", "max_atoms",
)  # fmt: skip
_NEW_GRAPHS_NAMES = {"format": "file_format", "formats": "file_format"}
_GENERATE_NAMES = {
    **_NEW_GRAPHS_NAMES, "options": "option_bits", "feature_range": "feature_ranges",
    "mask": "mask_key", "bridge": "bridge_key",
}  # fmt: skip
_GENERATE_UNSET: dict[str, Any] = {
    **dict.fromkeys((
        "recipe", "budget", "option_bits", "f", "ratio", "count", "partners", "grow", "chords",
        "fragments", "labels", "label_conflicts", "min_causal_nodes", "attach", "bridges", "ports",
        "bridge_count", "featx_features", "featx_direction", "featx_shape", "featx_scale",
        "featx_rounds", "featx_partner", "featx_ends", "replicas", "mask_key", "extractor",
        "bridge_key", "seed", "num_graphs", "shard_graphs", "file_format",
    )),
    **dict.fromkeys(
        ("balanced", "fixed_attributes", "bridge_nodes", "featx", "augmented_only"), False
    ),
    "feature_ranges": (),
    "preset": "default",
}  # fmt: skip
_AUGMENT_UNSET: dict[str, Any] = {
    **dict.fromkeys((
        "rate", "masked", "mix", "pairs", "ratio", "count", "replicas", "seed", "num_graphs",
        "shard_graphs", "file_format",
    )),
    "augmented_only": False,
}  # fmt: skip
METHODS = ("drop-node", "drop-edge", "mask-feature", "g-mixup")


@public()
def open(
    name: str | Path,
    *,
    store: StoreLike | None = None,
    format: Literal["parquet", "zarr"] | None = None,
) -> Corpus:
    """Open a corpus by key, first digits of a key, tag, directory or URL.

    All files are verified first, unless this machine built or verified the corpus before.

    Parameters
    ----------
    name
        Key, first digits of a key, tag, directory or URL.
    store
        Store to search. Default: ``GSX_STORE``, else ``./artifacts``.
    format
        File format to read, if the corpus has both.

    Examples
    --------
    >>> corpus = gsx.open("augmented")
    >>> corpus.table(split="train").num_nodes.max()
    """
    from gsx.storage.corpora.corpus import Corpus

    if not isinstance(name, str | Path):
        raise UsageError(
            f"gsx.open: a corpus is named by key, tag, path or URL; got {type(name).__name__}"
        )
    opened = choose_store(store)
    artifact = opened.resolve(str(name), kind="corpus")
    return Corpus(artifact, format=format, store=opened if opened.contains(artifact) else None)


@overload
def prepare(dataset: str, **options: Unpack[DatasetOptions]) -> Corpus: ...
@overload
def prepare(dataset: None = None, **options: Unpack[UserDataOptions]) -> Corpus: ...
@public(PrepareOptions)
def prepare(dataset: str | None = None, **options: Any) -> Corpus:
    """Write the source corpus of a dataset, or of your own data, and return it.

    Graphs get targets, splits and environments. An existing corpus with the same options is reused.

    Parameters
    ----------
    dataset
        Name of a dataset (`gsx.datasets()`). Leave it out for your own data.
    options
        Those of `gsx prepare` with underscores: ``smiles="assay.csv"``, ``tu=``, ``ogb=``,
        ``pyg=``, ``good=``, or ``nodes=`` and ``edges=``; ``target=``, ``domain=``, ``rule=``, …

    Examples
    --------
    >>> source = gsx.prepare("motif-size", num_graphs=3000)
    >>> mine = gsx.prepare(smiles="assay.csv", target="active", domain="scaffold")
    """
    from gsx.pipeline.commands.prepare import prepare as prepare_corpus

    if dataset is not None and not isinstance(dataset, str):
        raise UsageError(f"gsx.prepare: a dataset is a name; got {type(dataset).__name__}")
    given = rename_options("gsx.prepare", options, _PREPARE_NAMES)
    session, out = open_session(given), given.pop("out", None)
    unset = {
        **dict.fromkeys((*_PREPARE_PATHS, *_PREPARE_OTHERS)),
        **dict.fromkeys(_PREPARE_FLAGS, False),
        **dict.fromkeys(_PREPARE_LISTS, ()),
        "seed": 0,
        "file_format": "parquet",
    }
    complete = {**unset, **given, "raw": raw_folder(given)}
    complete |= {name: as_text(complete[name]) for name in _PREPARE_PATHS}
    complete |= {name: as_tuple(complete[name]) for name in _PREPARE_LISTS}
    if isinstance(complete["ratios"], list):
        complete["ratios"] = tuple(complete["ratios"])
    step = prepare_corpus(dataset, complete, session, out)
    assert step is not None
    return as_corpus(step.built.artifact, session.store)


@public(GenerateOptions)
def generate(
    source: str | Path | Corpus,
    recipe: str | Recommendation | None = None,
    **options: Unpack[GenerateOptions],
) -> Corpus:
    """Build an augmented corpus: source graphs, and generated graphs that extrapolate them.

    Missing inputs are built first: the source corpus, extractor, bridge model and feature mask.

    Parameters
    ----------
    source
        A corpus, the name of a dataset, or a recipe file.
    recipe
        ``"auto"``, a name (`gsx.recipes()`), or the result of `gsx.recommend`. Default: auto; with
        options that say how to make graphs, those of the paper.
    options
        Those of `gsx generate` with underscores, such as ``grow=4``, ``options="001"``,
        ``featx=True``. They override the options of a recipe.

    Returns
    -------
    Corpus
        The augmented corpus; the source corpus, if no recipe is recommended.

    Examples
    --------
    >>> corpus = gsx.generate(source, recipe="grow", preset="quick")
    >>> corpus = gsx.generate(mine, recipe=gsx.recommend(mine, budget="5m"))
    """
    from gsx.api.recommendation import Recommendation
    from gsx.pipeline.commands.generate import build_recommended
    from gsx.pipeline.commands.generate import generate as generate_corpus

    where = "gsx.generate"
    given = rename_options(where, options, _GENERATE_NAMES)
    session, out = open_session(given, source), given.pop("out", None)
    complete = {**_GENERATE_UNSET, **_recipe_names(given), "raw": raw_folder(given)}
    complete["feature_ranges"] = as_tuple(complete["feature_ranges"]) or ()
    named = source_of(where, source)
    if isinstance(recipe, Recommendation):
        if complete["budget"] is not None:
            raise UsageError(f"{where}: the recipe is recommended already; leave `budget` out")
        artifact, choice = recipe.artifact, recipe.choice
        named = _recommended_source(where, named, recipe, session.store)
        complete["num_graphs"] = None
        results = build_recommended(named, complete, session, artifact, out=out)
        if choice == "none":
            session.notify("No recipe is recommended: the result is the source corpus.")
        return as_corpus(results[-1].built.artifact, session.store)
    if recipe is not None and not isinstance(recipe, str):
        raise UsageError(
            f"{where}: a recipe is a name, `auto` or a Recommendation; got {type(recipe).__name__}"
        )
    complete["recipe"] = recipe

    def on_choice(evidence: Evidence) -> None:
        session.notify(f"recommended: {evidence.choice}. {evidence.reason}")

    results = generate_corpus(named, complete, session, out, on_choice=on_choice)
    return as_corpus(results[-1].built.artifact, session.store)


@public(AugmentOptions)
def augment(
    source: str | Path | Corpus,
    method: Literal["drop-node", "drop-edge", "mask-feature", "g-mixup"],
    **options: Unpack[AugmentOptions],
) -> Corpus:
    """Build a corpus with graphs of a baseline method, for comparison with `gsx.generate`.

    Parameters
    ----------
    source
        A corpus, or the name of a dataset.
    method
        ``drop-node``, ``drop-edge``, ``mask-feature`` or ``g-mixup``.
    options
        Those of `gsx augment` with underscores, such as ``rate=0.2``.

    Examples
    --------
    >>> dropped = gsx.augment(source, "drop-edge", rate=0.2)
    """
    from gsx.api.call import check_choice
    from gsx.pipeline.commands.generate import augment as augment_corpus

    where = "gsx.augment"
    check_choice(
        where, "method", method, Literal["drop-node", "drop-edge", "mask-feature", "g-mixup"]
    )
    given = rename_options(where, options, _NEW_GRAPHS_NAMES)
    session, out = open_session(given, source), given.pop("out", None)
    complete = {**_AUGMENT_UNSET, **given, "raw": raw_folder(given), "method": method}
    results = augment_corpus(source_of(where, source), complete, session, out)
    return as_corpus(results[-1].built.artifact, session.store)


@public(RunOptions)
def run(
    recipe: str | Path, **options: Unpack[RunOptions]
) -> dict[str, Corpus | Model | Recommendation | Artifact]:
    """Run all stages of a recipe file; existing artifacts are reused.

    Parameters
    ----------
    recipe
        A TOML file with one section per stage.
    options
        Those of `gsx run` with underscores, such as ``workers=2``.

    Returns
    -------
    dict
        The result of every stage by its name: corpora, models, recommendations and other artifacts.

    Examples
    --------
    >>> results = gsx.run("recipe.toml")
    >>> results["generate"]
    """
    from gsx.pipeline.commands.run import run as run_recipe

    given: dict[str, Any] = dict(options)
    session = open_session(given)
    if not isinstance(recipe, str | Path):
        raise UsageError(f"gsx.run: a recipe is a path; got {type(recipe).__name__}")
    results = run_recipe(Path(recipe), session, raw=raw_folder(given))
    return {step.name: _as_object(step.built.artifact, session.store) for step in results}


def _as_object(
    artifact: Artifact, store: ArtifactStore
) -> Corpus | Model | Recommendation | Artifact:
    """Return an artifact as an object of the API."""
    from gsx.api.models import Model
    from gsx.api.recommendation import Recommendation

    kind = artifact.manifest.kind
    if kind == "corpus":
        return as_corpus(artifact, store)
    if kind == "model":
        return Model(artifact, store)
    return Recommendation(artifact, store) if kind == "recommendation" else artifact


def _recipe_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the values of recipe files in the form of the command line."""
    given = dict(options)
    attributes = given.pop("attributes", None)
    if attributes is not None:
        given["fixed_attributes"] = attributes == "fixed"
    if given.get("bridges") == "learned":
        given["bridges"] = "vae"
    return given


def _recommended_source(
    where: str, source: str | Artifact, recommendation: Recommendation, store: ArtifactStore
) -> Artifact:
    """Return the source corpus; it must be the one of the recommendation."""
    from gsx.pipeline.commands.resolve_corpus import resolve_corpus
    from gsx.stages.prepare.stage import FAMILIES
    from gsx.storage.corpora.portable_copies import identity

    (parent,) = [row for row in recommendation.artifact.manifest.parents if row.kind == "corpus"]
    aliases = {name: name for family in FAMILIES for name in family.names}
    aliases |= {alias: name for family in FAMILIES for alias, name in family.aliases.items()}
    if isinstance(source, str) and source in aliases:
        artifact, name = store.resolve(parent.key, kind="corpus"), source
        is_same = artifact.manifest.config.get("dataset") == aliases[source]
    else:
        artifact = resolve_corpus(store, source)
        name = identity(artifact).key[:12]
        is_same = identity(artifact).digest == parent.digest
    if not is_same:
        raise UsageError(
            f"{where}: the recommendation is for corpus {parent.key[:12]}, not for {name}. Call "
            "`gsx.recommend` with this corpus."
        )
    return artifact
