"""A corpus as a ``LightningDataModule``; needs the package ``lightning``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningDataModule

if TYPE_CHECKING:
    from gsx.storage.corpora.corpus import Corpus
    from gsx.storage.corpora.loader import Loader


class CorpusDataModule(LightningDataModule):
    """Loaders for training, validation and test splits of a corpus.

    Training graphs are shuffled by ``seed``; ``options`` are those of ``Corpus.loader``, for
    example ``env_balanced=True`` or ``columns=["smiles"]``. Under a distributed strategy every
    process reads its part of an epoch. Checkpoints hold the position of the training loader, so
    that ``trainer.fit(..., ckpt_path=...)`` continues in the middle of an epoch.
    """

    def __init__(
        self,
        corpus: Corpus,
        batch_size: int,
        *,
        seed: int = 0,
        train: str | Sequence[str] = "train",
        validate: Sequence[str] = ("id_val", "ood_val"),
        test: Sequence[str] = ("id_test", "ood_test"),
        **options: Any,  # noqa: ANN401 - those of Corpus.loader
    ) -> None:
        super().__init__()
        self.corpus = corpus
        self.batch_size = batch_size
        self.seed = seed
        self.train_splits = train
        self.validate_splits = [name for name in validate if name in corpus.splits]
        self.test_splits = [name for name in test if name in corpus.splits]
        self.options = options
        self._train: Loader | None = None
        self._state: Mapping[str, Any] | None = None

    def train_dataloader(self) -> Loader:
        """Return the loader of training graphs, shuffled anew in every epoch."""
        if self._train is None:
            options = {"shuffle": True, "seed": self.seed, **self.options}
            if options.get("env_balanced"):
                options["shuffle"] = False
            self._train = self.corpus.loader(self.batch_size, split=self.train_splits, **options)
            if self._state is not None:
                self._train.load_state_dict(self._state)
        return self._train

    def val_dataloader(self) -> list[Loader]:
        """Return one loader per validation split."""
        return self._evaluation(self.validate_splits)

    def test_dataloader(self) -> list[Loader]:
        """Return one loader per test split."""
        return self._evaluation(self.test_splits)

    def predict_dataloader(self) -> list[Loader]:
        """Return one loader per test split."""
        return self.test_dataloader()

    def _evaluation(self, splits: Sequence[str]) -> list[Loader]:
        return [
            self.corpus.loader(
                self.batch_size, split=split, columns=self.options.get("columns", ())
            )
            for split in splits
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the training loader."""
        return self.train_dataloader().state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue at the position of a checkpoint."""
        self._state = state
        if self._train is not None:
            self._train.load_state_dict(state)
