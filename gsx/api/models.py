"""`gsx.train`: train a classifier. `gsx.evaluate`: score classifiers on a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from gsx.api.call import (
    as_text,
    as_tuple,
    check_choice,
    check_type,
    choose_store,
    corpus_artifact,
    open_session,
    public,
    rename_options,
)
from gsx.api.display import Result, TableRows
from gsx.api.options import Algorithm, EvaluateOptions, TrainingOptions, TrainOptions
from gsx.api.progress import notify
from gsx.errors import UsageError
from gsx.text_table import format_score

if TYPE_CHECKING:
    from gsx.storage.artifacts.store import Artifact, Store
    from gsx.storage.corpora.corpus import Corpus

TRAINING_UNSET: dict[str, Any] = {
    **dict.fromkeys(
        name for name in TrainingOptions.__annotations__ if name not in ("results", "method")
    ),
    "learner": None,
    "env_balanced": False,
    "precision": "full",
    "device": "auto",
}
"""Options of training, and their values if they are not given."""
SPLITS = ("id_val", "id_test", "ood_val", "ood_test")


class Model(Result):
    """A trained classifier and the scores of its training run."""

    def __init__(self, artifact: Artifact, store: Store) -> None:
        self.artifact = artifact
        self.store = store

    @property
    def key(self) -> str:
        """Key of the model."""
        return self.artifact.key

    @property
    def path(self) -> str:
        """Directory or URL of the model."""
        return self.artifact.location.url

    @property
    def name(self) -> str:
        """Name of the dataset that it was trained on."""
        from gsx.storage.corpora.summary import summary_name

        return summary_name(self.artifact.manifest)

    @property
    def algorithm(self) -> str:
        """Training algorithm."""
        return str(self.artifact.manifest.config["learner"])

    @property
    def seed(self) -> int:
        """Seed of the training run."""
        return int(self.artifact.manifest.config["seed"])

    @property
    def options(self) -> dict[str, Any]:
        """All options of the training run."""
        return dict(self.artifact.manifest.config)

    @property
    def metric(self) -> str:
        """Metric of the scores."""
        return str(self.to_dict()["metric"])

    @property
    def scores(self) -> dict[str, float | None]:
        """Score per split, in the epoch that the model reports."""
        document = self.to_dict()
        row = document["selection"].get(document["selected"], {})
        return {split: row[split] for split in SPLITS if split in row}

    def to_dict(self) -> dict[str, Any]:
        """Return the scores by selection rule, as plain values."""
        from gsx.storage.corpora.summary import model_scores, selected_rule

        quality = model_scores(self.artifact.manifest)
        return {"key": self.key, **quality, "selected": selected_rule(quality)}

    def _lines(self) -> tuple[list[str], list[str]]:
        config = self.artifact.manifest.config
        kind = f"{self.algorithm}, {config.get('backbone')}, seed {self.seed}"
        return [f"Model({self.name} {self.key[:12]}: {kind})"], []

    def _table(self) -> tuple[TableRows, Sequence[str]]:
        document = self.to_dict()
        rows = [
            (
                rule + (" (selected)" if rule == document["selected"] else ""),
                row.get("epoch"),
                *(format_score(row.get(split)) for split in SPLITS),
            )
            for rule, row in document["selection"].items()
        ]
        headers = (f"{document['metric'].upper()} AT", "EPOCH", *(name.upper() for name in SPLITS))
        return rows, headers

    def _records(self) -> Sequence[Mapping[str, Any]]:
        document = self.to_dict()
        return [
            {"rule": rule, "selected": rule == document["selected"], **row}
            for rule, row in document["selection"].items()
        ]


class Scores(Result):
    """Scores of one model, or of several, by split, environment and range of sizes.

    For one model, intervals are bootstrapped over the graphs of a split; for several, they are
    Student's t intervals over models.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = dict(document)

    @property
    def metric(self) -> str:
        """Metric of the scores."""
        return str(self._document["metric"])

    def __getitem__(self, split: str) -> float | None:
        """Return the score of a split; the mean, for several models."""
        from gsx.errors import did_you_mean

        splits = self._document["splits"]
        if split not in splits:
            raise UsageError(f"no scores on the split `{split}`. {did_you_mean(split, splits)}")
        row = splits[split]
        value: float | None = row["mean"] if "mean" in row else row["score"]
        return value

    def to_dict(self) -> dict[str, Any]:
        """Return all scores and intervals as plain values."""
        import msgspec

        document: dict[str, Any] = msgspec.to_builtins(self._document)
        return document

    def _lines(self) -> tuple[list[str], list[str]]:
        from gsx.pipeline.commands.evaluate import score_notes

        count = len(self._document.get("model_keys", [0]))
        models = f"{count} models" if count > 1 else "1 model"
        rule = self._document["selection"]
        return [f"{self.metric} of {models}, weights of the rule {rule}"], score_notes(
            self._document
        )

    def _table(self) -> tuple[TableRows, Sequence[str]]:
        from gsx.pipeline.commands.evaluate import score_table

        return score_table(self._document)

    def _records(self) -> Sequence[Mapping[str, Any]]:
        from gsx.pipeline.commands.evaluate import count_of, score_rows

        records = []
        for split, subset, row in score_rows(self._document):
            low, high = row.get("interval") or (None, None)
            names = ("mean", "std") if "mean" in row else ("score",)
            values = {name: row[name] for name in names}
            records.append(
                {"split": split, "subset": subset, "count": count_of(row), **values,
                 "low": low, "high": high}
            )  # fmt: skip
        return records


@public(TrainOptions)
def train(
    corpus: str | Path | Corpus,
    algorithm: Algorithm = "erm",
    seed: int = 0,
    **options: Unpack[TrainOptions],
) -> Model:
    """Train a classifier on a corpus and score it on every held-out split.

    An interrupted run resumes after its last finished epoch.

    Parameters
    ----------
    corpus
        A Corpus, or the key, tag, path or URL of one.
    algorithm
        Training algorithm, such as ``"erm"`` or ``"vrex"``.
    seed
        Root of the random streams.
    options
        Those of `gsx train` with underscores: ``epochs=``, ``width=``, ``preset="quick"``, …

    Examples
    --------
    >>> model = gsx.train(corpus, seed=0)
    >>> baseline = gsx.train(corpus, source_only=True)
    >>> model.scores["ood_test"]
    """
    from gsx.pipeline.commands.train import ResultFile
    from gsx.pipeline.commands.train import train as train_model

    where = "gsx.train"
    given = rename_options(where, options, {"origin": "origins"})
    check_choice(where, "algorithm", algorithm, Algorithm)
    check_type(where, "seed", seed, int)
    given.setdefault("learner", algorithm)
    session = open_session(given, corpus)
    preset = given.pop("preset", "default")
    folder, method = as_text(given.pop("results", None)), given.pop("method", None)
    result_file = ResultFile.of(folder, method, f"gsx.train({given})")  # type: ignore[arg-type]
    augmented = given.pop("augmented", None)
    complete = {
        **{name: value for name, value in TRAINING_UNSET.items() if name != "preset"},
        "source_only": False,
        "origins": (),
        "evaluate": None,
        "seal": False,
        "log": (),
        **given,
        "seed": seed,
    }
    if augmented is not None:
        complete["source_only"] = not augmented
    complete["origins"] = as_tuple(complete["origins"]) or ()
    complete["log"] = as_tuple(complete["log"]) or ()
    model = train_model(
        corpus_artifact(where, corpus, session.store),
        complete,
        session,
        preset=preset,
        result_file=result_file,
    )
    assert model is not None
    return Model(model.step.built.artifact, session.store)


@public(EvaluateOptions)
def evaluate(
    models: Model | str | Path | Sequence[Model | str | Path],
    corpus: str | Path | Corpus,
    **options: Unpack[EvaluateOptions],
) -> Scores:
    """Score trained classifiers on a corpus, by split, environment and range of sizes.

    Parameters
    ----------
    models
        A Model or several; or their keys, tags, paths or URLs.
    corpus
        A Corpus, or the key, tag, path or URL of one.
    options
        ``selection=`` is the rule whose weights are used; ``device=``.

    Examples
    --------
    >>> scores = gsx.evaluate(model, corpus)
    >>> print(scores)
    >>> scores["ood_test"], scores.to_pandas()
    """
    from gsx.pipeline.commands.evaluate import evaluate as evaluate_models
    from gsx.pipeline.commands.evaluate import score_notes

    where = "gsx.evaluate"
    store = choose_store(options.get("store"), first_model(models), corpus)
    artifacts = model_artifacts(where, models, store)
    document = evaluate_models(
        artifacts,
        corpus_artifact(where, corpus, store),
        selection=options.get("selection"),
        device=options.get("device", "auto"),
    )
    if not options.get("quiet", False):
        for note in score_notes(document):
            notify(note)
    return Scores(document)


def model_artifacts(where: str, models: object, store: Store) -> list[Artifact]:
    """Return the artifacts of one model or several."""
    listed = list(models) if isinstance(models, Sequence) and not isinstance(models, str) else None
    if listed == []:
        raise UsageError(f"{where}: no models given")
    return [_model_artifact(where, model, store) for model in (listed or [models])]


def _model_artifact(where: str, model: object, store: Store) -> Artifact:
    if isinstance(model, Model):
        return model.artifact
    if isinstance(model, str | Path):
        return store.resolve(str(model), kind="model")
    raise UsageError(
        f"{where}: expected a Model, or the key, tag, path or URL of one; got "
        f"{type(model).__name__}"
    )


def first_model(models: object) -> object:
    """Return the first of several models, or the model; its store is the default."""
    if isinstance(models, Sequence) and not isinstance(models, str):
        return models[0] if models else None
    return models
