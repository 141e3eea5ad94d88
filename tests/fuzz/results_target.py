"""Tables of molecules to predict, and folders of result files that were received."""

from __future__ import annotations

import json
import random

from tests.fuzz import draw_edits
from tests.fuzz.edits import apply
from tests.fuzz.manifests import copy_tree
from tests.fuzz.oracles import run_gsx
from tests.fuzz.raw_target import RawTarget, draw_text_edit
from tests.fuzz.sandbox import Box
from tests.fuzz.target import Case, Operation, Target, weighted


class PredictTarget(RawTarget):
    """A table of molecules, for a model of the user."""

    name = "predict"
    weight = 0.2

    def draw(self, rng: random.Random) -> Case:
        """Return edits of the table."""
        root, file = self.seeds / "raw" / "smiles", "molecules.csv"
        return {
            "target": self.name,
            "seed": "smiles",
            "edits": [self._draw_edit(rng, root, file) for _ in range(rng.choice((1, 1, 2)))],
            "options": list(rng.choice(((), ("--keep", "year"), ("--smiles-column", "year")))),
            "run": [rng.choice(("csv", "parquet", "print", "json"))],
        }

    def other_seeds(self, case: Case) -> list[str]:
        """Return the model."""
        return ["molecule-model"]

    def operation(self, name: str, box: Box, case: Case) -> Operation:
        """Return `gsx predict` with one kind of output."""
        model = self.seeds / "artifacts" / "molecule-model"
        words = ["predict", model, box.in_ / "raw" / "molecules.csv", *case["options"]]
        words += {
            "csv": ["--out", box.out / "predictions.csv"],
            "parquet": ["--out", box.out / "predictions.parquet"],
            "print": [],
            "json": ["--json"],
        }[name]
        return lambda: run_gsx(*words, "--store", box.store)


class ResultsTarget(Target):
    """A folder of result files: of two methods, sealed ones, and published scores."""

    name = "results"
    weight = 0.2
    FILES = ("motif-size/erm-0.json", "motif-size/other-0.json", "sealed/sealed-0.json")
    FOLDERS = ("motif-size", "sealed")

    def draw(self, rng: random.Random) -> Case:
        """Return edits of the folder."""
        root = self.seeds / "raw" / "results"
        edits = []
        for _ in range(rng.choice((1, 1, 2))):
            file, chance = rng.choice(self.FILES), rng.random()
            if chance < 0.15:
                edits.append(draw_edits.draw_file(rng, rng.choice((file, *self.FOLDERS))))
            elif chance < 0.25:
                edits.append(draw_edits.draw_bytes(rng, file))
            elif chance < 0.45:
                table = (root / "published.csv").read_bytes()
                edits.append(draw_text_edit(rng, "published.csv", table))
            else:
                edits.append(draw_edits.draw_json(rng, file, draw_edits.read_json(root / file)))
        tables = {f"table-{name}": 2 for name in ("markdown", "csv", "latex", "json")}
        return {
            "target": self.name,
            "seed": "results",
            "edits": edits,
            "run": weighted(rng, {**tables, "unseal": 5, "compare": 5}, 2),
        }

    def place(self, box: Box, case: Case) -> None:
        """Copy and edit the folder; the models and the corpus are in the store."""
        copy_tree(self.seeds / "raw" / "results", box.in_ / "results")
        for edit in case["edits"]:
            apply(box.in_ / "results", edit, box.canary)
        for name in ("parquet", "model", "sealed-model"):
            entry = self.catalogue[name]
            target = box.store / entry["kind"] / entry["key"][:32]
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_tree(self.seeds / "artifacts" / name, target)

    def operation(self, name: str, box: Box, case: Case) -> Operation:
        """Return a command that reads result files."""
        folder, store = box.in_ / "results", ("--store", box.store)
        if name == "unseal":
            return lambda: run_gsx("unseal", folder / "sealed", *store)
        if name == "compare":
            words = ("compare", folder, "erm", "other", "--split", "ood_test")
            return lambda: run_gsx(*words, *store)
        table_format = name.removeprefix("table-")
        return lambda: run_gsx("table", folder, "--format", table_format)


def write_results(folder, run) -> None:
    """Write result files of two methods, a sealed one, and a table of published scores."""
    folder.mkdir()
    tiny = ("--epochs", 1, "--width", 8, "--layers", 2, "--results")
    run("model", *tiny, folder, "--method", "erm")
    run("sealed-model", *tiny, folder / "all", "--method", "sealed", "--seal")
    (folder / "all" / "motif-size").rename(folder / "sealed")
    (folder / "all").rmdir()
    document = json.loads((folder / "motif-size/erm-0.json").read_bytes())
    other = {**document, "method": "other"}
    (folder / "motif-size/other-0.json").write_text(json.dumps(other))
    (folder / "published.csv").write_text(
        "split,method,dataset,mean,std\nood,ERM,motif-size,51.7,2.3\nid,ERM,motif-size,90,1\n"
    )
