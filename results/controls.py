"""Ask what the pieces of molecules owe to the way they are chosen: ``python results/controls.py``.

Reads the extractor that ``results/extract.py`` measured on hiv-size, from the store; a minute.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from measured import gsx
from safetensors.torch import load_file

from gsx.ragged import rows_of
from gsx.seeds import rng
from gsx.stages.extract import _read
from gsx.stages.extractors.lesson import Lesson, hold_out, lesson_of, units_of
from gsx.stages.extractors.posterior import Candidates, choose, find_candidates
from gsx.stages.extractors.quality import how_told, roc_auc
from gsx.stages.extractors.teaching import SMALLEST_PIECE, Posterior, PosteriorOptions, tell
from gsx.stages.kernels.subgraphs import best_nodes, grow, induced, prefixes
from gsx.stages.nets.labels import beyond, decided, information, prior_of, row_loss
from gsx.stages.nets.posteriors import NodePosterior, SetPosterior
from gsx.storage.corpus import Corpus
from gsx.storage.store import Store

MEASURED = Path(__file__).parent / "extract" / "hiv-size-posterior-0.json"
RESULT = Path(__file__).parent / "controls" / "hiv-size-posterior-0.json"


def main() -> None:
    """Compare pieces chosen in several ways, by the labels of held-out graphs alone."""
    torch.set_num_threads(1)
    measured = json.loads(MEASURED.read_text())
    built = gsx("pretrain", "extract", measured["corpus_key"], "--seed", "0")
    corpus = Corpus(Store.at(None).resolve(measured["corpus_key"], kind="corpus"))
    parts = hold_out(lesson_of(_read(corpus), corpus.info), 0)
    held = parts.held
    model = read_model(Path(built["path"]), parts.taught)
    cost = measured["quality"]["size_cost"]
    found = find_candidates(model, held)
    label = decided(
        torch.from_numpy(tell(model, model.whole, held.graphs)), model.label_prior, model.task
    )
    dice = rng(0, "results", "controls").random(held.graphs.total_nodes)
    chosen = choose(held, found, cost)
    pieces = {
        "as_extracted": chosen,
        "most_information": choose(held, candidates(model, held, found.score, None), 0.0),
        "always_yes": choose(
            held, candidates(model, held, found.score, torch.ones_like(label)), cost
        ),
        "grown_at_random": choose(held, candidates(model, held, dice, label), cost),
        "random": random_pieces(held, dice, chosen),
    }
    result = {
        "command": "python results/controls.py",
        "key": built["key"],
        "size_alone": roc_auc(held.graphs.num_nodes.astype(float), held.y[:, 0] > 0.5),
        "pieces": {
            name: {
                "nodes": round(float(keep.sum() / len(held)), 2),
                "piece": told(model, model.sets, held, keep),
                "rest": told(model, model.whole, held, ~keep),
            }
            for name, keep in pieces.items()
        },
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


def read_model(folder: Path, lesson: Lesson) -> Posterior:
    """Return the networks of an extractor made with the default options."""
    options, envs = PosteriorOptions(), int(lesson.env.max()) + 1
    shape = (options.width, options.layers, lesson.kinds)
    nets = {
        "whole": SetPosterior(lesson.width, lesson.y.shape[1], *shape),
        "nodes": NodePosterior(lesson.width, lesson.y.shape[1], envs, *shape),
        "sets": SetPosterior(lesson.width, lesson.y.shape[1], *shape),
    }
    for name, net in nets.items():
        net.load_state_dict(load_file(folder / f"{name}.safetensors"))
    share = torch.from_numpy(np.bincount(lesson.env, minlength=envs) / len(lesson.env))
    return Posterior(
        options=options,
        **nets,
        label_prior=prior_of(torch.from_numpy(lesson.y), lesson.task),
        env_prior=share.float().clamp_min(1e-6),
        task=lesson.task,
        kinds=lesson.kinds,
        device=torch.device("cpu"),
        history=[],
    )


def candidates(
    model: Posterior, held: Lesson, score: np.ndarray, label: torch.Tensor | None
) -> Candidates:
    """Grow sets by ``score``; ask for ``label``, or for whatever they say most about."""
    graphs, longest = held.graphs, model.options.largest_piece
    seeds = best_nodes(graphs, score, model.options.seeds)
    sizes = np.arange(SMALLEST_PIECE, longest + 1)
    orders, values = [], []
    for start in seeds.T:
        growth = grow(graphs, score, start, longest, units_of(graphs))
        orders.append(growth.order)
        for size in sizes:
            part, _ = prefixes(graphs, growth.order, np.full(len(graphs), size))
            logits = torch.from_numpy(tell(model, model.sets, part))
            if label is None:
                value = information(logits, model.label_prior, model.task)
            else:
                value = -row_loss(beyond(logits, model.label_prior, model.task), label, model.task)
            values.append(np.where(growth.whole[:, size], value.numpy().astype(float), -np.inf))
    every = np.tile(sizes, model.options.seeds)
    return Candidates(score, np.stack(orders, axis=1), every, np.stack(values, axis=1))


def random_pieces(held: Lesson, dice: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return a random connected set of every graph, about as large as its piece."""
    graphs = held.graphs
    sizes = np.bincount(rows_of(graphs.node_ptr), like, minlength=len(held)).astype(int)
    start = best_nodes(graphs, dice, 1)[:, 0]
    growth = grow(graphs, dice, start, int(sizes.max()), units_of(graphs))
    inside = np.arange(growth.order.shape[1]) < growth.rounded(sizes)[:, None]
    keep = np.zeros(graphs.total_nodes, dtype=bool)
    keep[growth.order[inside & (growth.order >= 0)]] = True
    return keep


def told(model: Posterior, net: SetPosterior, held: Lesson, keep: np.ndarray) -> float | None:
    """Return how well a network tells held-out labels from some nodes of every graph."""
    return how_told(tell(model, net, induced(held.graphs, keep)[0]), held.y, held.task)


if __name__ == "__main__":
    main()
