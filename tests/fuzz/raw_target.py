"""Raw files of users: edit text, archives, arrays and pickles, then prepare a corpus from them."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path

from tests.fuzz import draw_edits
from tests.fuzz.edits import Edit, apply
from tests.fuzz.manifests import copy_tree
from tests.fuzz.oracles import run_gsx
from tests.fuzz.sandbox import Box
from tests.fuzz.target import Case, Operation, Target
from tests.fuzz.values import CANARY, draw

READERS = {
    "smiles": ("--smiles", "molecules.csv", "--target", "active"),
    "nodes": (
        "--nodes",
        "nodes.csv",
        "--edges",
        "edges.csv",
        "--target",
        "kind",
        "--feature-column",
        "a",
        "--feature-column",
        "b",
    ),
    "tu": ("--tu", "."),
    "tu-zip": ("--tu", "P.zip"),
    "ogb": ("--ogb", "ring"),
    "npz": ("--ogb", "ring"),
    "pyg": ("--pyg", "rings.pt"),
    "good": ("--good", "Rings/color"),
}
VARIANTS = {
    "smiles": ((), ("--domain", "scaffold"), ("--domain", "column:year"), ("--task", "regression")),
    "nodes": ((), ("--rule", "column", "--split-column", "part")),
    "ogb": ((), ("--rule", "column", "--split-column", "half")),
    "pyg": ((), ("--domain", "column:assay"), ("--environments", "given")),
}
CELLS = (
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "-1",
    "1.5",
    "9" * 30,
    "9007199254740993",
    "0x10",
    "1_000",
    "९",
    "\x00",
    '"',
    '"a,b"',
    "a\rb",
    "=CANARY()",
    "\x1b[31m",
    {"$repeat": ["C", 3000]},
    {"$repeat": ["C", 100_000]},
    "[Xx]",
    {"$repeat": ["C1", 500]},
    {"$repeat": ["c1ccccc1", 300]},
    {"$repeat": ["C(", 2000]},
    "[C+99]",
    "[2000C]",
    "*",
    "C.C.C",
    "CC>>C",
    "[H][H]",
    "%%99",
    "C%100",
    "\u2028",
    "é",
    "<script>CANARY-HTML",
    "../escaped",
    "18446744073709551616",
)
HEADERS = ("shape", "descr", "fortran_order")
NPY = {
    "shape": (
        "(1000000000000,)",
        "(2147483648, 2147483648)",
        "(-1,)",
        "()",
        "(0,)",
        "(3, 15)",
        "(1e3,)",
        "('a',)",
        "(" * 300 + ")" * 300,
        "(10**15,)",
        "(True,)",
        "None",
        "(99999999999999999999999,)",
    ),
    "descr": (
        "'|O'",
        "'<f2'",
        "'>i8'",
        "'<U5'",
        "'|V8'",
        "[('a', '<i4')]",
        "''",
        "None",
        "'<c16'",
        "'<M8[s]'",
        "'|S0'",
        "'<i8,<i8'",
        "[" * 200,
        "'object'",
        "__import__('os')",
    ),
    "fortran_order": ("True", "1", "None", "'x'", "[]"),
}
PICKLES = (
    b"\x80\x02cposix\nsystem\nX\x1c\x00\x00\x00touch @CANARY@/home/escaped01q\x00\x85q\x01Rq\x02.",
    b"\x80\x02cbuiltins\neval\nX\x10\x00\x00\x00open('escaped','w)\x85R.",
    b"\x80\x02}q\x00.",
    b"\x80\x02]q\x00.",
    b"\x80\x02N.",
    b"\x80\x02X\x04\x00\x00\x00abcd.",
    b"\x80\x02" + b"(" * 5000 + b"t" * 5000 + b".",
    b"\x80\x02" + b"]" * 100_000 + b".",
    b"\x80\x05\x95",
    b"",
    b"\x80\x02cnumpy\nndarray\nK\x00\x85c_codecs\nencode\n.",
    b"\x80\x02K\x01" + b"2" * 10**6 + b".",
    b"\x80\x02\x8a\xff" + b"\xff" * 255 + b".",
    b"\x80\x02ctorch\nTensor\n)\x81.",
    b"\x80\x02cnumpy\ndtype\nX\x02\x00\x00\x00O8K\x00K\x01\x87R.",
)


class RawTarget(Target):
    """Files in the formats of the readers."""

    name = "raw"
    weight = 0.5
    may_read_links = True

    def draw(self, rng: random.Random) -> Case:
        """Return edits of the files of a random reader."""
        readers = [name for name in READERS if (self.seeds / "raw" / name).exists()]
        seed = rng.choice(readers)
        root = self.seeds / "raw" / seed
        files = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
        edits = [
            self._draw_edit(rng, root, rng.choice(files)) for _ in range(rng.choice((1, 1, 2)))
        ]
        options = list(rng.choice(VARIANTS.get(seed, ((),))))
        return {
            "target": self.name,
            "seed": seed,
            "edits": edits,
            "options": options,
            "run": ["prepare"],
        }

    def _draw_edit(self, rng: random.Random, root: Path, file: str) -> Edit:
        path, chance = root / file, rng.random()
        if chance < 0.06:
            return draw_edits.draw_file(rng, file)
        if chance < 0.15:
            return draw_edits.draw_bytes(rng, file)
        if path.suffix == ".gz":
            import gzip

            inner = draw_text_edit(rng, "", gzip.decompress(path.read_bytes()))
            return {"do": "inside", "file": file, "edit": inner}
        if path.suffix in (".zip", ".npz", ".pt"):
            return self._draw_archive(rng, path, file)
        return draw_text_edit(rng, file, path.read_bytes())

    def _draw_archive(self, rng: random.Random, path: Path, file: str) -> Edit:
        with zipfile.ZipFile(path) as archive:
            member = rng.choice(archive.namelist())
            data = archive.read(member)
        if rng.random() < 0.3:
            return _draw_zip(rng, file, member)
        if member.endswith(".npy"):
            header = rng.choice(HEADERS)
            inner: Edit = {"do": "npy", header: rng.choice(NPY[header])}
            if rng.random() < 0.3:
                inner = draw_edits.draw_bytes(rng, "")
        elif member.endswith(".pkl") and rng.random() < 0.3:
            content = rng.choice(PICKLES)
            inner = (
                {"do": "bytes", "edit": "cut", "at": 0}
                if not content
                else {"do": "bytes", "edit": "write", "at": 0, "value": content.hex()}
            )
        elif member.endswith(".txt"):
            inner = draw_text_edit(rng, "", data)
        else:
            inner = draw_edits.draw_bytes(rng, "")
            inner["times"] = min(inner.get("times", 1), 1000)
        return {"do": "inside", "file": file, "member": member, "edit": inner}

    def place(self, box: Box, case: Case) -> None:
        """Copy and edit the raw files."""
        copy_tree(self.seeds / "raw" / case["seed"], box.in_ / "raw")
        for edit in case["edits"]:
            apply(box.in_ / "raw", edit, box.canary)

    def operation(self, name: str, box: Box, case: Case) -> Operation:
        """Return `gsx prepare` with the reader's options."""
        words = [
            box.in_ / "raw" / word
            if before in ("--smiles", "--nodes", "--edges", "--tu", "--ogb", "--pyg", "--good")
            else word
            for before, word in zip(
                ("", *READERS[case["seed"]]), READERS[case["seed"]], strict=False
            )
        ]
        return lambda: run_gsx("prepare", *words, *case["options"], "--store", box.store)


def draw_text_edit(rng: random.Random, file: str, data: bytes) -> Edit:
    """Return an edit of a line or a cell of a text file."""
    lines = data.decode("utf-8", "replace").split("\n")
    line = rng.randrange(max(len(lines) - 1, 1))
    edit: Edit = {"do": "text", "file": file, "line": rng.choice((0, line, line, line))}
    kind = rng.choices(
        ("cell", "line", "insert", "delete", "duplicate", "column", "endings", "encode"),
        (10, 2, 2, 1, 2, 1, 1, 1),
    )[0]
    edit["edit"] = kind
    value = rng.choice(CELLS) if rng.random() < 0.8 else draw(rng)
    edit["value"] = (
        value if kind != "encode" else rng.choice(("utf-16", "utf-8-sig", "latin-1", "utf-32"))
    )
    if kind == "cell":
        edit["cell"] = rng.randrange(max(lines[edit["line"]].count(",") + 1, 1))
    if kind in ("insert", "duplicate"):
        edit["times"] = rng.choice((1, 1, 10, 20_000))
    if kind == "line" and rng.random() < 0.2:
        edit["value"] = {"$repeat": ["a,", 100_000]}
    return edit


def _draw_zip(rng: random.Random, file: str, member: str) -> Edit:
    kind = rng.choice(("rename", "add", "repeat", "drop", "mode", "bomb"))
    edit: Edit = {"do": "zip", "file": file, "edit": kind, "member": member}
    names = (
        f"../{member}",
        f"{CANARY}/escaped",
        "../../../../../canary/escaped",
        member.upper(),
        "a\x00b",
        f"{member}/inner",
        "P/",
        "",
    )
    if kind in ("rename", "add"):
        edit |= {
            "name": rng.choice(names),
            "value": f"{CANARY}/secret.txt",
            "mode": rng.choice((0o644, 0o120777)),
        }
    if kind == "mode":
        edit["value"] = rng.choice((0o120777, 0o010644, 0o040755))
    if kind == "bomb":
        edit |= {"name": rng.choice((member, "P/P_extra.txt")), "value": 300_000_000}
    return edit
