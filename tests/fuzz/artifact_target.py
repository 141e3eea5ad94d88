"""Received artifacts: edit their files, hash them again, and run every reader."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz import draw_edits
from tests.fuzz.edits import Edit, apply
from tests.fuzz.manifests import (
    copy_tree,
    is_tampered,
    manifest_place,
    read_manifest,
    rehash,
)
from tests.fuzz.oracles import Outcome, run_gsx
from tests.fuzz.sandbox import Box, snapshot
from tests.fuzz.target import Case, Operation, Target, weighted

CHEAP = {
    "verify": 10,
    "pull": 8,
    "show": 3,
    "show-json": 1,
    "push": 4,
    "lineage": 3,
    "ls": 2,
    "diff": 3,
    "ls-long": 1,
    "tag": 1,
    "gc": 1,
    "gc-delete": 1,
    "verify-all": 2,
}
READ = {
    "tables": 8,
    "hot": 8,
    "stream": 5,
    "table": 3,
    "pyg": 4,
    "html": 2,
    "columns": 2,
    "item": 2,
}
CORPUS = {
    **CHEAP,
    **READ,
    "describe": 5,
    "report": 2,
    "export-portable": 2,
    "export-csv": 1,
    "export-pyg": 1,
    "export-good": 1,
    "export-ogb": 1,
    "export-dgl": 1,
    "export-zarr": 1,
    "export-parquet": 1,
    "export-smi": 0.5,
    "export-sdf": 0.5,
    "train": 0.5,
    "train-wl": 0.5,
    "predict": 1,
    "mask": 0.5,
    "augment": 1,
    "featx": 0.5,
    "generate": 1,
    "extract": 0.2,
    "bridge-model": 0.2,
}
BY_KIND = {
    "corpus": CORPUS,
    "extractor": {**CHEAP, "use-extractor": 20},
    "bridge": {**CHEAP, "use-bridge": 20},
    "mask": {**CHEAP, "use-mask": 20},
    "model": {
        **CHEAP,
        "evaluate": 20,
        "report-model": 3,
        "predict-corpus": 10,
        "predict-table": 10,
    },
    "recommendation": {**CHEAP, "use-recommendation": 20},
    "statistics": {**CHEAP, "describe-again": 6},
    "export": CHEAP,
}
NEEDS_CORPUS = {
    "use-extractor": "parquet",
    "use-bridge": "parquet",
    "use-mask": "nodes",
    "evaluate": "parquet",
    "report-model": "parquet",
    "predict-corpus": "parquet",
    "use-recommendation": "motif",
    "describe-again": "motif",
}
OTHER_CORPORA = {
    "molecule-model": "numbers",
    "morgan-model": "numbers",
    "node-model": "nodes",
    "gcn-model": "nodes",
}
"""Corpora of models that were not trained on the default one."""
ACCEPTING = ("verify", "tables", "hot", "verify-signature")
COPYING = {"pull": "pulled", "pull-trust": "trusted", "push": "pushed"}


class ArtifactTarget(Target):
    """A directory that claims to be an artifact."""

    name = "artifact"

    def draw(self, rng: random.Random) -> Case:
        """Return edits of a random artifact, and operations that suit its kind."""
        names = sorted(name for name in self.catalogue if name != "store")
        seed = rng.choice([*names, "parquet", "parquet", "molecules", "nodes"])
        entry = self.catalogue[seed]
        edits = [self._draw_edit(rng, seed) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        run = ["verify"] if rng.random() < 0.5 else []
        run += weighted(rng, BY_KIND.get(entry["kind"], CHEAP), 2)
        if seed == "signed" and rng.random() < 0.6:
            run = ["verify-signature", "pull-trust"]
        return {
            "target": self.name,
            "seed": seed,
            "edits": edits,
            "rehash": rng.choices(("no", "files", "all"), (2, 3, 5))[0],
            "as": rng.choice(("directory", "directory", "store")),
            "run": list(dict.fromkeys(run)),
        }

    def _draw_edit(self, rng: random.Random, seed: str) -> Edit:
        root, files = self.seeds / "artifacts" / seed, self.catalogue[seed]["files"]
        names = list(files)
        # The zarr format has hundreds of equal files; descriptions are few and matter most.
        top = [name for name in names if "/" not in name]
        file = rng.choice(top if rng.random() < 0.5 else names)
        suffix = Path(file).suffix
        chance = rng.random()
        if chance < 0.12:
            folder = file.split("/")[0]
            extra = rng.choice(
                (
                    "run.json",
                    "manifest.json.minisig",
                    "extra.txt",
                    "data/extra.parquet",
                    ".hidden",
                    f"{file}.part",
                )
            )
            return draw_edits.draw_file(rng, rng.choice((file, file, folder, extra)))
        if chance < 0.22:
            return draw_edits.draw_bytes(rng, file)
        if suffix == ".json":
            return draw_edits.draw_json(rng, file, draw_edits.read_json(root / file))
        if suffix == ".safetensors" and chance < 0.7:
            return draw_edits.draw_header(rng, file, (root / file).read_bytes())
        if suffix == ".parquet" and chance < 0.9:
            edit = draw_edits.draw_parquet(rng, file, files[file])
            if "json" in edit:
                info = draw_edits.read_json(root / "corpus.json")
                edit["json"] = draw_edits.draw_json(rng, file, info)
            return edit
        if file.startswith("zarr/") and chance < 0.7:
            return draw_edits.draw_zarr(rng, file)
        return draw_edits.draw_bytes(rng, file)

    def other_seeds(self, case: Case) -> list[str]:
        """Return the corpora that operations on other kinds of artifacts need."""
        return [_corpus_of(case, name) for name in case["run"] if name in NEEDS_CORPUS]

    def place(self, box: Box, case: Case) -> None:
        """Copy the seed, edit it, and hash it again."""
        root = box.in_ / "received"
        copy_tree(self.seeds / "artifacts" / case["seed"], root)
        for edit in case["edits"]:
            apply(root, edit, box.canary)
        manifest = read_manifest(root)
        if case["rehash"] != "no" and manifest is not None:
            manifest = rehash(root, sync=case["rehash"] == "all") or manifest
        if case["as"] == "store":
            kind, key = manifest_place(manifest, self.catalogue[case["seed"]])
            target = box.store / kind / key
            target.parent.mkdir(parents=True, exist_ok=True)
            root.rename(target)
            root = target
        for name in case["run"]:
            if name in NEEDS_CORPUS:
                self._publish(box, _corpus_of(case, name))
        self._root = root
        self._before = snapshot(root) if case["as"] == "directory" else None
        self._tampered = is_tampered(root)

    def _publish(self, box: Box, seed: str) -> None:
        entry = self.catalogue[seed]
        target = box.store / entry["kind"] / entry["key"][:32]
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_tree(self.seeds / "artifacts" / seed, target)

    def check(self, name: str, outcome: Outcome, box: Box, case: Case) -> Iterator[tuple[str, str]]:
        """Compare the received directory with its state before, and hashes with the manifest."""
        if self._before is not None and name not in ("sign", "gc-delete"):
            after = snapshot(self._root)
            if after != self._before:
                changed = sorted(set(self._before.items()) ^ set(after.items()))
                self._before = after
                yield "received directory changed", changed[0][0].split("/")[0]
        if outcome.kind == "accepted" and self._tampered and name in ACCEPTING:
            yield "accepted after tampering", self._tampered.split("/")[0]
        if name in COPYING:
            for copy in sorted((box.out / COPYING[name]).glob("*/*")):
                if (copy / "manifest.json").exists() and is_tampered(copy):
                    yield "published a damaged copy", is_tampered(copy).split("/")[0]
        signed = name in ("verify-signature", "pull-trust") and outcome.kind == "accepted"
        if signed and not self._has_original_manifest(case):
            yield "forged signature accepted", name

    def _has_original_manifest(self, case: Case) -> bool:
        original = self.seeds / "artifacts" / case["seed"] / "manifest.json"
        return (self._root / "manifest.json").read_bytes() == original.read_bytes()

    def operation(self, name: str, box: Box, case: Case) -> Operation:
        """Return one reader of the artifact."""
        root = self._root
        store = ("--store", box.store)
        key = str(root)
        seeds = {needing: _corpus_of(case, needing) for needing in NEEDS_CORPUS}
        corpus = {n: self.catalogue[s]["key"][:32] for n, s in seeds.items() if s in self.catalogue}
        out = box.out
        tiny = ("--epochs", 1, "--width", 4)
        commands: dict[str, tuple] = {
            "verify": ("verify", key, *store),
            "verify-all": ("verify", "--all", *store),
            "verify-signature": (
                "verify",
                key,
                "--signature",
                self.seeds / "keys/mine.pub",
                *store,
            ),
            "show": ("show", key, *store),
            "show-json": ("show", key, "--json", *store),
            "ls": ("ls", *store),
            "lineage": ("lineage", key, *store),
            "diff": ("diff", key, self.seeds / "artifacts" / case["seed"], *store),
            "gc": ("gc", *store),
            "gc-delete": ("gc", "--delete", *store),
            "pull": ("pull", key, "--with-lineage", "--store", box.out / "pulled"),
            "pull-trust": (
                "pull",
                key,
                "--trust",
                self.seeds / "keys/mine.pub",
                "--store",
                box.out / "trusted",
            ),
            "push": ("push", key, box.out / "pushed", *store),
            "describe": ("describe", key, *store),
            "describe-again": ("describe", corpus.get("describe-again"), *store),
            "report": ("report", key, "--no-models", "-o", out / "report.html", *store),
            "report-model": (
                "report",
                corpus.get("report-model"),
                "--model",
                key,
                "-o",
                out / "report.html",
                *store,
            ),
            "train": ("train", key, *tiny, "--layers", 2, *store),
            "train-wl": ("train", key, "--backbone", "wl", *store),
            "predict": ("predict", self.seeds / "artifacts/model", key, *store),
            "predict-corpus": ("predict", key, corpus.get("predict-corpus"), *store),
            "predict-table": ("predict", key, self.seeds / "raw/smiles/molecules.csv", *store),
            "use-recommendation": (
                *("recommend", corpus.get("use-recommendation"), "--budget", "0s"),
                *("--recipes", "drop-edge", *store),
            ),
            "tag": ("tag", key, "fuzz", *store),
            "ls-long": ("ls", "--long", *store),
            "evaluate": ("evaluate", key, corpus.get("evaluate"), *store),
            "mask": ("pretrain", "mask", key, "--steps", 1, *store),
            "extract": (
                "pretrain",
                "extract",
                key,
                "--node-epochs",
                1,
                "--set-epochs",
                1,
                "--width",
                4,
                *store,
            ),
            "bridge-model": ("pretrain", "bridge", key, *tiny, *store),
            "augment": ("augment", key, "drop-edge", "--count", 4, *store),
            "featx": ("generate", key, "--featx", "--featx-features", "all", "--count", 4, *store),
            "generate": (
                "generate",
                key,
                "--options",
                "001",
                "--bridges",
                "random",
                "--count",
                4,
                "--f",
                "2",
                *store,
            ),
            "use-extractor": (
                "generate",
                corpus.get("use-extractor"),
                "--extractor",
                key,
                "--bridges",
                "none",
                "--count",
                4,
                *store,
            ),
            "use-bridge": (
                "generate",
                corpus.get("use-bridge"),
                "--options",
                "001",
                "--bridge",
                key,
                "--count",
                4,
                *store,
            ),
            "use-mask": (
                "generate",
                corpus.get("use-mask"),
                "--featx",
                "--mask",
                key,
                "--replicas",
                1,
                *store,
            ),
        }
        if name.startswith("export-"):
            layout = name.removeprefix("export-")
            return lambda: run_gsx("export", key, out / name, "--to", layout, *store)
        if name in commands:
            return lambda: run_gsx(*commands[name])
        return lambda: read_corpus(name, root)


def _corpus_of(case: Case, name: str) -> str:
    """Return the seed of the corpus that an operation on an artifact needs."""
    return OTHER_CORPORA.get(case["seed"], NEEDS_CORPUS[name])


def read_corpus(name: str, root: Path, *, check: bool = True) -> None:
    """Read a corpus with the Python interface; ``check`` compares indices with sizes."""
    import gsx

    corpus = gsx.open(root)
    match name:
        case "tables":
            for table in corpus.iter_tables():
                table.total_nodes  # noqa: B018
        case "hot" | "stream":
            shuffle = name == "hot"
            loader = corpus.loader(4, shuffle=shuffle, cache="always" if shuffle else "never")
            for batch in loader:
                if not check:
                    continue
                missing = [field for field in ("x", "edge_index") if field not in batch]
                missing += [] if "y" in batch or "node_y" in batch else ["y"]
                if missing:
                    raise AssertionError(f"a batch without {missing}")
                if batch.edge_index.numel() and int(batch.edge_index.max()) >= batch.num_nodes:
                    raise AssertionError("an edge beyond the nodes of its batch")
        case "table":
            corpus.table(split=next(iter(corpus.splits)))
        case "pyg":
            for data in corpus.to_pyg():
                if check:
                    data.validate()
        case "html":
            corpus._repr_html_()
            repr(corpus)
            corpus.environments  # noqa: B018
        case "columns":
            corpus.table(columns=[column.name for column in corpus.info.columns][:3])
        case "item":
            corpus[len(corpus) - 1]
