"""Valid inputs to start from: ``python -m tests.fuzz.seeds DIR [light]``."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

CATALOGUE = "catalogue.json"
SMILES = (
    "CCO",
    "CCCO",
    "c1ccccc1O",
    "CC(=O)O",
    "CCN",
    "c1ccncc1",
    "CCCCCl",
    "CC(C)C",
    "OCC(O)CO",
    "c1ccc2ccccc2c1",
    "CC(=O)Nc1ccccc1",
    "N#CCC",
    "C1CCCCC1",
    "C1CC1C",
    "CSC",
    "CCOC(=O)C",
)
NODES = "id,a,b,kind,part\n" + "".join(
    f"n{n},{n % 7},{n / 4},{n % 2},{('train', 'val', 'test')[n % 3]}\n" for n in range(40)
)
EDGES = "from,to\n" + "".join(f"n{n},n{n + 1}\nn{n},n{n // 2}\n" for n in range(39))
QUICK = ("--epochs", 1, "--width", 8)


def build(folder: Path, *, heavy: bool) -> None:
    """Write all seeds and their catalogue; ``heavy`` includes everything that needs training."""
    from tests.fuzz.raw_seeds import write_raw
    from tests.fuzz.results_target import write_results
    from tests.support.artifacts import gsx

    store, artifacts, raw = folder / "store", folder / "artifacts", folder / "raw"
    for path in (artifacts, raw, folder / "keys"):
        path.mkdir(parents=True)
    write_raw(raw)

    def run(*words: object) -> dict[str, Any]:
        result = gsx(*words, "--store", store, "--json")
        if result.code:
            raise SystemExit(f"gsx {' '.join(map(str, words))}: {result.err}{result.out}")
        return json.loads(result.out.strip().splitlines()[-1])

    def keep(name: str, *words: object) -> Path:
        source = run(*words)["path"]
        shutil.copytree(source, artifacts / name)
        return Path(source)

    motif = keep("motif", "prepare", "motif-size", "--num-graphs", 20, "--format", "both")
    plain = keep("parquet", "prepare", "motif-size", "--num-graphs", 24, "--shard-graphs", 8)
    table = raw / "smiles" / "molecules.csv"
    keep("molecules", "prepare", "--smiles", table, "--target", "active", "--domain", "scaffold")
    nodes = keep(
        "nodes",
        "prepare",
        "--nodes",
        raw / "nodes" / "nodes.csv",
        "--edges",
        raw / "nodes" / "edges.csv",
        "--target",
        "kind",
        "--feature-column",
        "a",
        "--feature-column",
        "b",
        "--format",
        "both",
    )
    keep("statistics", "describe", motif.name)
    statistics = Path(run("describe", plain.name)["path"]).name
    for layout in ("portable", "csv"):
        run("export", plain.name, artifacts / f"export-{layout}", "--to", layout)
    run_keys(folder / "keys", gsx)
    signed = artifacts / "signed"
    shutil.copytree(plain, signed)
    result = gsx("sign", signed, "--key", folder / "keys" / "mine.key")
    assert result.code == 0, result
    words = ("prepare", "--smiles", table, "--target", "active", "--task", "regression")
    numbers = keep("numbers", *words)
    keep("molecule-model", "train", numbers.name, *QUICK, "--layers", 2)
    write_results(raw / "results", lambda name, *words: keep(name, "train", plain.name, *words))
    if heavy:
        for backbone in ("wl", "mean", "size"):
            keep(f"{backbone}-model", "train", plain.name, "--backbone", backbone)
        keep("morgan-model", "train", numbers.name, "--backbone", "morgan")
        keep("node-model", "train", nodes.name, "--backbone", "node")
        keep("gcn-model", "train", nodes.name, *QUICK, "--layers", 2)
        recipes = ("--budget", "0s", "--recipes", "drop-edge")
        keep("recommendation", "recommend", motif.name, *recipes)
        extractor = keep(
            "extractor",
            "pretrain",
            "extract",
            plain.name,
            "--node-epochs",
            1,
            "--set-epochs",
            1,
            "--width",
            8,
        )
        bridge = keep("bridge", "pretrain", "bridge", plain.name, *QUICK)
        keep("mask", "pretrain", "mask", nodes.name, "--steps", 2)
        keep(
            "generated",
            "generate",
            plain.name,
            "--recipe",
            "paper",
            "--extractor",
            extractor.name,
            "--bridge",
            bridge.name,
            "--count",
            4,
        )
        for layout in ("pyg", "ogb"):
            run("export", plain.name, artifacts / f"export-{layout}", "--to", layout)
    small = folder / "store"
    store.rename(folder / "all")
    for kind, name in (("corpus", plain.name), ("corpus", nodes.name), ("statistics", statistics)):
        shutil.copytree(folder / "all" / kind / name, small / kind / name)
    shutil.rmtree(folder / "all")
    catalogue = {path.name: describe(path) for path in sorted(artifacts.iterdir())}
    catalogue["store"] = describe(store)
    (folder / CATALOGUE).write_text(json.dumps(catalogue))


def run_keys(folder: Path, gsx: Any) -> None:
    """Write two key pairs."""
    for name in ("mine", "other"):
        assert gsx("keygen", folder / name).code == 0


def describe(root: Path) -> dict[str, Any]:
    """Return what edits need to know of an artifact: files, columns, and arrays."""
    import pyarrow.parquet as pq

    files: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        entry: dict[str, Any] = {"size": path.stat().st_size}
        if path.suffix == ".parquet":
            schema = pq.read_schema(path)
            entry["columns"] = {field.name: str(field.type) for field in schema}
            entry["structs"] = {
                f.name: [g.name for g in f.type] for f in schema if str(f.type).startswith("struct")
            }
        files[path.relative_to(root).as_posix()] = entry
    manifest = root / "manifest.json"
    info = json.loads(manifest.read_bytes()) if manifest.is_file() else {"kind": "store", "key": ""}
    return {"kind": info["kind"], "key": info["key"], "files": files}


def main() -> None:
    """Build seeds in an empty environment."""
    folder = Path(sys.argv[1])
    (folder / "cache").mkdir(parents=True)
    os.environ["GSX_CACHE"] = str(folder / "cache")
    os.environ.pop("GSX_STORE", None)
    build(folder, heavy=sys.argv[2:] != ["light"])


if __name__ == "__main__":
    main()
