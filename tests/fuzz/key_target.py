"""Keys and signatures."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz import draw_edits
from tests.fuzz.edits import Edit, apply
from tests.fuzz.manifests import copy_tree
from tests.fuzz.oracles import Outcome, run_gsx
from tests.fuzz.sandbox import Box
from tests.fuzz.target import Case, Operation, Target, weighted


class KeyTarget(Target):
    """Keys and signatures: nothing but the original signature of the original bytes is valid."""

    name = "key"
    weight = 0.15
    FILES = ("mine.pub", "mine.key", "signed/manifest.json.minisig", "signed/manifest.json")

    def draw(self, rng: random.Random) -> Case:
        """Return edits of a key, a signature or the manifest."""
        edits = []
        for _ in range(rng.choice((1, 1, 2))):
            file = rng.choice(self.FILES)
            path = self.seeds / ("artifacts" if "/" in file else "keys") / file
            chance = rng.random()
            if chance < 0.1:
                edit = draw_edits.draw_file(rng, file)
                if edit["edit"] == "symlink" and "/" not in file:
                    continue  # users may keep their keys behind links
                edits.append(edit)
            elif chance < 0.5 and not file.endswith("t.json"):
                edits.append(
                    {
                        "do": "decoded",
                        "file": file,
                        "line": rng.choice((1, 3)),
                        "at": rng.randrange(106),
                        "mask": 1 << rng.randrange(8),
                        "fill": rng.choice((None, None, "00", "ff", "01")),
                    }
                )
            elif chance < 0.7 and not file.endswith("t.json"):
                lines = path.read_text().split("\n")
                edits.append(
                    {
                        "do": "text",
                        "file": file,
                        "edit": rng.choice(("line", "delete", "duplicate")),
                        "line": rng.randrange(len(lines)),
                        "value": rng.choice(("", "x", "\u0000", "é", "A" * 70000)),
                    }
                )
            else:
                edits.append(draw_edits.draw_bytes(rng, file))
        if rng.random() < 0.1:
            edits = [{"do": "small order", "file": "mine.pub", "point": rng.randrange(4)}]
        return {
            "target": self.name,
            "seed": "signed",
            "edits": edits,
            "run": weighted(rng, {"verify": 4, "pull": 4, "sign": 2}, 2),
        }

    def place(self, box: Box, case: Case) -> None:
        """Copy keys and the signed artifact, and edit them."""
        root = box.in_
        copy_tree(self.seeds / "artifacts" / "signed", root / "signed")
        for name in ("mine.pub", "mine.key"):
            (root / name).write_bytes((self.seeds / "keys" / name).read_bytes())
        for edit in case["edits"]:
            if edit["do"] == "decoded":
                _edit_decoded(root / edit["file"], edit)
            elif edit["do"] == "small order":
                _forge(root, edit["point"])
            else:
                apply(root, edit, box.canary)

    def operation(self, name: str, box: Box, case: Case) -> Operation:
        """Return a command that uses a key."""
        root = box.in_
        words = {
            "verify": (
                "verify",
                root / "signed",
                "--signature",
                root / "mine.pub",
                "--store",
                box.store,
            ),
            "pull": ("pull", root / "signed", "--trust", root / "mine.pub", "--store", box.store),
            "sign": ("sign", root / "signed", "--key", root / "mine.key", "--store", box.store),
        }[name]
        return lambda: run_gsx(*words)

    def check(self, name: str, outcome: Outcome, box: Box, case: Case) -> Iterator[tuple[str, str]]:
        """Refuse a valid signature if key, signature or manifest differ from the originals."""
        if name == "sign" or "sign" in case["run"] or outcome.kind != "accepted":
            return
        original = (self.seeds / "artifacts" / "signed", self.seeds / "keys" / "mine.pub")
        received = (box.in_ / "signed", box.in_ / "mine.pub")
        if [_meaning(*place) for place in (original,)] != [
            _meaning(*place) for place in (received,)
        ]:
            yield "forged signature accepted", name


def _meaning(artifact: Path, public: Path) -> tuple:
    """Return the bytes that a signature depends on."""

    def decoded(path: Path, line: int) -> bytes:
        return base64.b64decode(path.read_text(errors="replace").splitlines()[line])

    signature = artifact / "manifest.json.minisig"
    return (
        (artifact / "manifest.json").read_bytes(),
        decoded(signature, 1),
        decoded(signature, 3),
        decoded(public, 1),
    )


def _edit_decoded(path: Path, edit: Edit) -> None:
    """Change a byte of a line of Base64."""
    try:
        if not path.is_file():
            return
        lines = path.read_text().split("\n")
        raw = bytearray(base64.b64decode(lines[edit["line"]]))
        at = edit["at"] % len(raw)
        if edit["fill"] is None:
            raw[at] ^= edit["mask"]
        else:
            raw[at:] = bytes.fromhex(edit["fill"]) * (len(raw) - at)
        lines[edit["line"]] = base64.b64encode(raw).decode()
        path.write_text("\n".join(lines))
    except (OSError, ValueError, LookupError, ZeroDivisionError):
        return


def _forge(root: Path, point: int) -> None:
    """Write a public key of small order and a signature that is valid for any message."""
    points = (
        b"\x01" + bytes(31),
        bytes(32),
        b"\xec" + b"\xff" * 30 + b"\x7f",
        bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    )
    key_id = b"\x07" * 8
    public = base64.b64encode(b"Ed" + key_id + points[point]).decode()
    (root / "mine.pub").write_text(f"untrusted comment: key\n{public}\n")
    signature = points[0] + bytes(32)
    text = base64.b64encode(b"ED" + key_id + signature).decode()
    both = base64.b64encode(signature).decode()
    (root / "signed" / "manifest.json.minisig").write_text(
        f"untrusted comment: x\n{text}\ntrusted comment: x\n{both}\n"
    )
