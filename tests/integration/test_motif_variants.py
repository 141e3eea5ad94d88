"""Motif data with other bases, motifs and directions: learnable, and usable by every stage.

Test splits of confirmation data are not scored here: training leaves them out.
"""

import json

import pytest

from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.run_stages import run_recipe

NAMES = ["motif2-size", "motif2-size-down", "motif2-base", "motif-lobo-barbell", "motif-lobo-wheel"]
DOWN = 'dataset = "motif-size"\ndirection = "descending"\n'
CHOSEN = (
    'dataset = "motif-base"\nbases = ["grid", "star"]\nval_bases = ["cycle"]\n'
    'test_bases = ["caterpillar", "path"]\nmotifs = ["clique", "butterfly"]\n'
)
PREPARE = {
    **{name: f'dataset = "{name}"\n' for name in NAMES},
    "motif-size-custom": DOWN,
    "motif-base-custom": CHOSEN,
}
GROW = """
[extract]
node_epochs = 3
set_epochs = 1
[bridge]
epochs = 1
[generate]
recipe = "grow"
ratio = 0.2
[train]
epochs = 1
width = 8
evaluate = "validation"
"""


def scores(artifact):
    document = json.loads(artifact.location.read_bytes("scores.json", limit=10**6))
    return document["selection"]["last"]


@pytest.mark.parametrize("name", list(PREPARE))
def test_a_linear_model_is_better_than_chance_in_distribution(name, tmp_path):
    text = f'[prepare]\n{PREPARE[name]}num_graphs = 1500\n[train]\nsource = "prepare"\n'
    built = run_recipe(tmp_path, f'{text}backbone = "wl"\nevaluate = "validation"\n')
    corpus = Corpus(built["prepare"])
    assert corpus.info.name == name
    assert scores(built["train"])["id_val"] > 100 / len(corpus.info.outputs) + 20
    assert "ood_test" not in scores(built["train"])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PREPARE))
def test_graphs_are_generated_from_it_and_trained_on(name, tmp_path):
    text = f"[prepare]\n{PREPARE[name]}num_graphs = 300\n"
    built = run_recipe(tmp_path, text + GROW)
    source, generated = Corpus(built["prepare"]), Corpus(built["generate"])
    assert verify_artifact(built["generate"].location).problems == ()
    assert len(generated) > len(source)
    assert generated.info.outputs == source.info.outputs
    assert set(scores(built["train"])) == {"epoch", "id_val", "ood_val"}
