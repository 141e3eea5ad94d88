"""Leave-one-base-out: ten datasets, one for each base graph that only occurs in ``ood_test``.

``motif-lobo-path`` tests on paths. The base before it in ``ALL_BASES`` is for ``ood_val``, here
stars, and the other eight are for training, each an environment. The list is read as a circle, so
that over all ten datasets every base is once for test and once for validation: no base has more
weight than another, and the choice needs no score. ``motif-base`` follows the same rule among its
five bases. All else is as in ``motif-base``.

Like Motif2, they are confirmation data: no recipe, option or network is chosen on them.
"""

from __future__ import annotations

from gsx.stages.prepare.synthetic.base_graphs import ALL_BASES
from gsx.stages.prepare.synthetic.motif_dataset import BASE_WIDTHS, MotifDataset, motif_family


def _dataset(test: int) -> MotifDataset:
    val = (test - 1) % len(ALL_BASES)
    return MotifDataset(
        name=f"motif-lobo-{ALL_BASES[test]}",
        domain="base",
        bases=ALL_BASES,
        widths=BASE_WIDTHS,
        train=tuple(base for base in range(len(ALL_BASES)) if base not in (val, test)),
        ood_val=(val,),
        ood_test=(test,),
        confirmation=True,
    )


DATASETS = {dataset.name: dataset for dataset in map(_dataset, range(len(ALL_BASES)))}
FAMILY = motif_family(DATASETS)
