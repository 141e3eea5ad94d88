"""Compare ways to choose causal subgraphs of molecules by how well they predict held-out labels.

``python -m experiments.analysis.extractor_controls`` reads the hiv-size extractor of the suite
``extractors`` from the store and writes ``results/controls/hiv-size-posterior-0.json`` (a minute).
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from experiments.run import run_json
from experiments.suite import RESULTS
from gsx.ragged import Array, row_indices
from gsx.seeds import rng
from gsx.stages.extract.data import ExtractorData, build_extractor_data, node_units, split_held_out
from gsx.stages.extract.metrics import score_predictions
from gsx.stages.extract.posterior_extractor import Candidates, find_candidates, select_subgraphs
from gsx.stages.extract.posterior_network import NodePosterior, SetPosterior
from gsx.stages.extract.posterior_training import (
    MIN_SUBGRAPH_NODES,
    PosteriorModel,
    PosteriorOptions,
    predict,
)
from gsx.stages.extract.stage import read_training_graphs
from gsx.stages.graphs.roc_auc import roc_auc
from gsx.stages.graphs.subgraphs import (
    Bools,
    Floats,
    grow_subgraphs,
    induced_subgraphs,
    prefix_subgraphs,
    top_nodes,
)
from gsx.stages.nn.losses import (
    estimate_prior,
    kl_from_prior,
    predicted_label,
    remove_prior,
    row_loss,
)
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus

EXTRACTOR_RESULT = RESULTS / "extract" / "hiv-size-posterior-0.json"
RESULT = RESULTS / "controls" / "hiv-size-posterior-0.json"


def main() -> None:
    """Score subgraphs chosen in five ways and write the result file."""
    torch.set_num_threads(1)
    extractor = json.loads(EXTRACTOR_RESULT.read_text(encoding="utf-8"))
    built = run_json(("gsx", "pretrain", "extract", extractor["corpus_key"], "--seed", "0"))
    corpus = Corpus(Store.at(None).resolve(extractor["corpus_key"], kind="corpus"))
    split = split_held_out(build_extractor_data(read_training_graphs(corpus), corpus.info), 0)
    held_out = split.held_out
    model = read_model(Path(built["path"]), split.train)
    whole = torch.from_numpy(predict(model, model.whole, held_out.graphs))
    label = predicted_label(whole, model.label_prior, model.task)
    size_penalty = extractor["quality"]["size_penalty"]
    extracted = find_candidates(model, held_out)
    random_score = rng(0, "results", "controls").random(held_out.graphs.total_nodes)
    chosen = select_subgraphs(held_out, extracted, size_penalty)

    def chosen_by(score: Floats, target: torch.Tensor | None, cost: float) -> Bools:
        return select_subgraphs(held_out, candidates(model, held_out, score, target), cost)

    subgraphs = {
        "as_extracted": chosen,
        "most_information": chosen_by(extracted.score, None, 0.0),
        "always_yes": chosen_by(extracted.score, torch.ones_like(label), size_penalty),
        "grown_at_random": chosen_by(random_score, label, size_penalty),
        "random": random_subgraphs(held_out, random_score, chosen),
    }
    result = {
        "command": "python -m experiments.analysis.extractor_controls",
        "key": built["key"],
        "size_alone": roc_auc(held_out.graphs.num_nodes.astype(float), held_out.y[:, 0] > 0.5),
        "pieces": {
            name: {
                "nodes": round(float(keep.sum() / len(held_out)), 2),
                "piece": label_score(model, model.sets, held_out, keep),
                "rest": label_score(model, model.whole, held_out, ~keep),
            }
            for name, keep in subgraphs.items()
        },
    }
    text = json.dumps(result, indent=2)
    RESULT.write_text(text + "\n", encoding="utf-8")
    print(text)


def read_model(folder: Path, data: ExtractorData) -> PosteriorModel:
    """Load the networks of an extractor that was trained with the default options."""
    options, environments = PosteriorOptions(), int(data.env.max()) + 1
    shape = (options.width, options.layers, data.num_categories)
    whole = SetPosterior(data.input_width, data.y.shape[1], *shape)
    nodes = NodePosterior(data.input_width, data.y.shape[1], environments, *shape)
    sets = SetPosterior(data.input_width, data.y.shape[1], *shape)
    for name, network in (("whole", whole), ("nodes", nodes), ("sets", sets)):
        network.load_state_dict(load_file(folder / f"{name}.safetensors"))
    share = torch.from_numpy(np.bincount(data.env, minlength=environments) / len(data.env))
    return PosteriorModel(
        options=options,
        whole=whole,
        nodes=nodes,
        sets=sets,
        label_prior=estimate_prior(torch.from_numpy(data.y), data.task),
        env_prior=share.float().clamp_min(1e-6),
        task=data.task,
        num_categories=data.num_categories,
        device=torch.device("cpu"),
        history=[],
    )


def candidates(
    model: PosteriorModel, data: ExtractorData, score: Floats, target: torch.Tensor | None
) -> Candidates:
    """Grow candidate subgraphs by node score; rate them by how well they predict ``target``.

    Without a target, candidates are rated by their information about any label.
    """
    graphs, largest = data.graphs, model.options.max_subgraph_nodes
    seeds = top_nodes(graphs, score, model.options.num_seeds)
    sizes = np.arange(MIN_SUBGRAPH_NODES, largest + 1)
    orders: list[Array] = []
    values: list[Array] = []
    for start in seeds.T:
        growth = grow_subgraphs(graphs, score, start, largest, node_units(graphs))
        orders.append(growth.order)
        for size in sizes:
            subgraphs, _ = prefix_subgraphs(graphs, growth.order, np.full(len(graphs), size))
            logits = torch.from_numpy(predict(model, model.sets, subgraphs))
            if target is None:
                value = kl_from_prior(logits, model.label_prior, model.task)
            else:
                value = -row_loss(
                    remove_prior(logits, model.label_prior, model.task), target, model.task
                )
            values.append(np.where(growth.complete[:, size], value.numpy().astype(float), -np.inf))
    all_sizes = np.tile(sizes, model.options.num_seeds)
    return Candidates(score, np.stack(orders, axis=1), all_sizes, np.stack(values, axis=1))


def random_subgraphs(data: ExtractorData, score: Floats, like: Bools) -> Bools:
    """Return the nodes of a random connected subgraph per graph, about as large as in ``like``."""
    graphs = data.graphs
    sizes = np.bincount(row_indices(graphs.node_ptr), like, minlength=len(data)).astype(int)
    start = top_nodes(graphs, score, 1)[:, 0]
    growth = grow_subgraphs(graphs, score, start, int(sizes.max()), node_units(graphs))
    inside = np.arange(growth.order.shape[1]) < growth.rounded_to_units(sizes)[:, None]
    keep = np.zeros(graphs.total_nodes, dtype=bool)
    keep[growth.order[inside & (growth.order >= 0)]] = True
    return keep


def label_score(
    model: PosteriorModel, network: SetPosterior, data: ExtractorData, keep: Bools
) -> float | None:
    """Return the score of a network's label predictions from some nodes of every graph."""
    return score_predictions(
        predict(model, network, induced_subgraphs(data.graphs, keep)[0]), data.y, data.task
    )


if __name__ == "__main__":
    main()
