"""Options of the functions, with their types: those of the command line, with underscores.

Options that have another name in recipe files are accepted by both names. A test compares the
lists with the options of the commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict

from gsx.api.store import Store

FilePath = str | Path
StoreLike = str | Path | Store
"""A store, its directory or its URL."""
Names = str | Sequence[str]
"""One name, or several."""
FileFormat = Literal["parquet", "zarr", "both"]
Device = Literal["auto", "cpu", "cuda"]
Rule = Literal["ood_val", "id_val", "augmented", "last"]
Layout = Literal["portable", "pyg", "good", "ogb", "dgl", "csv", "smi", "sdf", "chemprop"]
Algorithm = Literal[
    "erm", "vrex", "irm", "groupdro", "coral", "dann", "flag", "mixup", "lisa", "eerm", "srgnn",
    "dir", "gil", "ciga", "lisa-subgraph", "leci", "prune",
]  # fmt: skip


class OutputOptions(TypedDict, total=False):
    """Where results go, and what is printed."""

    store: StoreLike | None
    """Store of artifacts. Default: that of the input, else GSX_STORE, else ./artifacts."""
    quiet: bool
    """Print no notes and no progress."""
    progress: bool | None
    """Show progress bars. Default: in notebooks and terminals."""


class BuildOptions(OutputOptions, total=False):
    """Options of all functions that build artifacts."""

    force: bool
    """Build a new generation even if the artifact exists."""
    tag: str | None
    """Name for the result, to be used instead of its key."""


class WorkerOptions(TypedDict, total=False):
    """Workers to run on."""

    workers: int | None
    """Number of local worker processes."""
    scheduler: str | None
    """Address of a Dask scheduler."""
    memory_limit: str
    """Memory limit per local worker, such as 4GB."""
    dashboard: bool
    """Serve Dask's dashboard."""


class CommonPrepareOptions(BuildOptions, WorkerOptions, total=False):
    """Options of `prepare` for every source."""

    seed: int
    shard_graphs: int | None
    format: FileFormat
    formats: FileFormat
    name: str | None
    envs: int | str | None
    environments: int | str | None
    direction: Literal["ascending", "descending"] | None
    raw: FilePath | None
    out: FilePath | None


class DatasetOptions(CommonPrepareOptions, total=False):
    """Options of `prepare` for a dataset."""

    num_graphs: int | None
    protocol: Literal["paper", "mid"] | None
    features: Literal["hashed", "minilm"] | None
    bases: Names | None
    val_bases: Names | None
    test_bases: Names | None
    motifs: Names | None


class UserDataOptions(CommonPrepareOptions, total=False):
    """Options of `prepare` for user data."""

    smiles: FilePath | None
    tu: FilePath | None
    ogb: FilePath | None
    pyg: FilePath | None
    good: FilePath | None
    nodes: FilePath | None
    edges: FilePath | None
    smiles_column: str | None
    id_column: str | None
    feature_column: Names | None
    feature_columns: Names | None
    target: Names | None
    targets: Names | None
    task: Literal["binary", "multitask", "classification", "regression"] | None
    metric: Literal["accuracy", "roc_auc", "mcc", "rmse"] | None
    domain: str | None
    rule: Literal["domain-sorted", "quantile", "random", "column"] | None
    ratios: str | Sequence[float] | None
    divide_domains: bool
    min_test_per_class: int | None
    split_column: str | None
    max_atoms: int | None
    strict: bool


class PrepareOptions(DatasetOptions, UserDataOptions, total=False):
    """All options of `prepare`."""


class SourceOptions(BuildOptions, WorkerOptions, total=False):
    """Options of functions that accept a dataset in place of a corpus."""

    num_graphs: int | None
    raw: FilePath | None
    out: FilePath | None


class RecommendOptions(SourceOptions, total=False):
    """Options of `recommend`."""

    recipes: Names | None
    graphs: int
    seed: int


class NewGraphsOptions(SourceOptions, total=False):
    """Options of `generate` and `augment`."""

    ratio: float | None
    count: int | None
    replicas: int | None
    augmented_only: bool
    seed: int | None
    shard_graphs: int | None
    format: FileFormat | None
    formats: FileFormat | None


class GenerateOptions(NewGraphsOptions, total=False):
    """Options of `generate`."""

    budget: str | int | None
    options: str | None
    f: str | int | tuple[int, int] | None
    partners: Literal["any", "same-class", "same-component"] | None
    balanced: bool
    grow: float | None
    chords: float | None
    fragments: int | None
    labels: Literal["average", "any", "all", "sum", "size-scaled"] | None
    label_conflicts: Literal["merge", "reject", "keep"] | None
    min_causal_nodes: int | None
    attach: Literal["tree", "chain", "star"] | None
    bridges: Literal["vae", "diffusion", "random", "none", "learned"] | None
    ports: Literal["any", "own"] | None
    bridge_count: Literal["expected", "sampled"] | None
    fixed_attributes: bool
    attributes: Literal["learned", "fixed"]
    bridge_nodes: bool
    featx: bool
    featx_features: Literal["selected", "all"] | None
    featx_direction: Literal["extrapolate", "interpolate"] | None
    featx_shape: float | None
    featx_scale: float | None
    featx_rounds: int | None
    featx_partner: Literal["node", "ranked"] | None
    featx_ends: Literal["around", "mirror"] | None
    feature_range: Names | None
    feature_ranges: Names | None
    mask: str | None
    extractor: str | None
    bridge: str | None
    preset: Literal["quick", "default"]


class AugmentOptions(NewGraphsOptions, total=False):
    """Options of `augment`."""

    rate: float | None
    masked: Literal["columns", "nodes", "values"] | None
    mix: str | tuple[float, float] | None
    pairs: int | None


class TrainingOptions(TypedDict, total=False):
    """Options of training that `train` and `compare` share."""

    learner: Algorithm | None
    preset: Literal["quick", "default", "paper"]
    backbone: Literal["gin", "vgin", "gcn", "wl", "morgan", "size", "mean", "node"] | None
    counts: Literal["auto", "counts", "log", "shares"] | None
    strength: float | None
    epochs: int | None
    steps: int | None
    width: int | None
    layers: int | None
    batch_size: int | None
    samples: int | None
    coverage: int | None
    learning_rate: float | None
    weight_decay: float | None
    schedule: Literal["cosine", "step", "constant"] | None
    milestone: int | None
    dropout: float | None
    readout: Literal["mean", "sum", "mean+size"] | None
    average: float | None
    select: Rule | None
    env_balanced: bool
    precision: Literal["full", "bf16", "auto"]
    device: Device
    penalty: float | None
    ascent_step: float | None
    ascents: int | None
    mix_alpha: float | None
    context_rate: float | None
    contexts: int | None
    context_edits: int | None
    context_steps: int | None
    causal_ratio: float | None
    inferred_envs: int | None
    hinge: float | None
    generators: int | None
    kl_weight: float | None
    label_penalty: float | None
    edge_prior: float | None
    edge_budget: float | None
    aligned_edges: float | None
    align_weight: float | None
    results: FilePath | None
    method: str | None


class TrainOptions(TrainingOptions, BuildOptions, total=False):
    """Options of `train`."""

    source_only: bool
    augmented: bool
    origin: Names | None
    origins: Names | None
    evaluate: Literal["all", "validation", "sealed"] | None
    seal: bool
    log: Names


class CompareOptions(TrainingOptions, OutputOptions, total=False):
    """Options of `compare`."""

    split: Literal["id_val", "id_test", "ood_val", "ood_test"] | None
    equal_epochs: bool


class EvaluateOptions(OutputOptions, total=False):
    """Options of `evaluate`."""

    selection: Rule | None
    device: Device


class PredictOptions(EvaluateOptions, total=False):
    """Options of `predict`."""

    smiles_column: str | None
    keep: Names
    max_atoms: int | None
    split: Names


class ReportOptions(OutputOptions, total=False):
    """Options of `report`; ``model`` is a Model, or its key, tag or path."""

    seed: int
    model: object
    no_models: bool


class ExportOptions(BuildOptions, total=False):
    """Options of `export`."""

    labels: Literal["same-class", "argmax", "soft"]
    creator: str
    url: str


class RunOptions(BuildOptions, WorkerOptions, total=False):
    """Options of `run`."""

    raw: FilePath | None
