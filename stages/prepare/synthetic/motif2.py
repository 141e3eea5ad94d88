"""Motif2: confirmation data with other bases and other motifs than Motif.

No recipe, option or network is chosen on these datasets: they confirm, or do not confirm, what was
chosen on others. So their definition is frozen, and a test pins their content. It was fixed before
a model was trained on it: the bases are the newer half of ``ALL_BASES``, and the last two of them
are for ``ood_val`` and ``ood_test``.

``motif2-size`` shifts to larger graphs, ``motif2-size-down`` to smaller ones, ``motif2-base`` to
unseen bases. No motif is a subgraph of another, induced or not, and none is an induced subgraph of
a base that is not random.
"""

from __future__ import annotations

from functools import partial

from gsx.stages.prepare.synthetic.motif_dataset import (
    BASE_WIDTHS,
    MotifDataset,
    descending,
    motif_family,
)

_dataset = partial(
    MotifDataset,
    bases=("grid", "caterpillar", "barabasi-albert", "cycle", "barbell"),
    motifs=("diamond", "bull", "butterfly"),
    confirmation=True,
)
DATASETS = {
    dataset.name: dataset
    for dataset in (
        _dataset(name="motif2-size", domain="size"),
        descending(_dataset(name="motif2-size-down", domain="size")),
        _dataset(name="motif2-base", domain="base", widths=BASE_WIDTHS),
    )
}
FAMILY = motif_family(DATASETS)
