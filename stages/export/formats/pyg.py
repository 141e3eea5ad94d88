"""Format ``pyg``: one file per split that PyG's ``InMemoryDataset.load`` reads."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gsx.escape import markdown_text
from gsx.pyg import CorpusDataset, pyg_columns
from gsx.stages.export.card_text import corpus_description
from gsx.stages.export.request import ExportRequest
from gsx.stages.export.torch_files import save_tensors
from gsx.storage.sharing.bundle import Bundle

READER = '''"""Read this corpus with PyTorch Geometric: Corpus("train"), Corpus("ood_test"), ...

Files contain only tensors, lists and strings, so `torch.load(path, weights_only=True)` reads them.
"""

import json
from pathlib import Path

from torch_geometric.data import InMemoryDataset


class Corpus(InMemoryDataset):
    def __init__(self, split, folder=Path(__file__).parent, transform=None):
        super().__init__(transform=transform)
        self.info = json.loads(Path(folder, "corpus.json").read_text(encoding="utf-8"))
        self.load(str(Path(folder, "processed", f"{split}.pt")))

    @property
    def num_classes(self):
        binary = self.info["task"] in ("binary", "multitask")
        return 2 if binary else len(self.info["outputs"])

    @property
    def num_tasks(self):
        return 1 if self.info["task"] == "classification" else len(self.info["outputs"])
'''


def write(bundle: Bundle, request: ExportRequest) -> None:
    """Write one tensor file per split and a module that loads them."""
    corpus = request.corpus
    for split, num_graphs in corpus.splits.items():
        dataset = corpus.to_pyg(split=split, columns=_extra_columns(request))
        bundle.write(f"processed/{split}.pt", partial(_save, dataset=dataset), rows=num_graphs)
    bundle.add("corpus.py", READER.encode())
    title, text = markdown_text(corpus.info.name), corpus_description(request, markdown_text)
    readme = f"# {title}\n\n{text}\n"
    bundle.add("README.md", readme.encode())
    bundle.copy_file(corpus.artifact, "env_table.json")
    bundle.copy_file(corpus.artifact, "corpus.json")


def _extra_columns(request: ExportRequest) -> list[str]:
    info = request.corpus.info
    dense = [column.name for column in info.columns if not column.ragged or column.dtype == "text"]
    extra = ("domain_id", "origin", "node_truth", "smiles")
    default = pyg_columns(info)
    return [name for name in extra if name in dense and name not in default]


def _save(path: Path, dataset: CorpusDataset) -> None:
    save_tensors(path, (dataset._data.to_dict(), dataset.slices))
