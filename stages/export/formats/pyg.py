"""Files that PyG's own ``InMemoryDataset.load`` reads, one per split, of tensors alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gsx.pyg import CorpusDataset, pyg_columns
from gsx.stages.export.card_text import about
from gsx.stages.export.request import Given
from gsx.stages.export.torch_files import save_tensors
from gsx.storage.sharing.bundle import Bundle

READER = '''"""Read this corpus with PyTorch Geometric: Corpus("train"), Corpus("ood_test"), ...

Files hold tensors, lists and words alone, so `torch.load(path, weights_only=True)` reads them.
"""

from pathlib import Path

from torch_geometric.data import InMemoryDataset


class Corpus(InMemoryDataset):
    def __init__(self, split, folder=Path(__file__).parent, transform=None):
        super().__init__(transform=transform)
        self.load(str(Path(folder, "processed", f"{split}.pt")))
'''


def fill(bundle: Bundle, given: Given) -> None:
    """Write one file per split, and the few lines that read them."""
    corpus = given.corpus
    for split, graphs in corpus.splits.items():
        dataset = corpus.to_pyg(split=split, columns=_extras(given))
        bundle.write(f"processed/{split}.pt", partial(_save, dataset=dataset), rows=graphs)
    bundle.add("corpus.py", READER.encode())
    bundle.add("README.md", f"# {corpus.info.name}\n\n{about(given)}\n".encode())
    bundle.copy_file(corpus.artifact, "env_table.json")
    bundle.copy_file(corpus.artifact, "corpus.json")


def _extras(given: Given) -> list[str]:
    info = given.corpus.info
    plain = [column.name for column in info.columns if not column.ragged or column.dtype == "text"]
    wanted = ("domain_id", "origin", "node_truth", "smiles")
    usual = pyg_columns(info)
    return [name for name in wanted if name in plain and name not in usual]


def _save(path: Path, dataset: CorpusDataset) -> None:
    save_tensors(path, (dataset._data.to_dict(), dataset.slices))
