"""The two halves of graphs that learners of invariant subgraphs look at."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from gsx.stages.nn.batches import GraphBatch
from gsx.stages.nn.device import computing
from gsx.stages.nn.edge_selector import Selecting, Split, unremembered
from gsx.stages.train.algorithms.training_step import Seen, Sight, Told


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """The graphs of a batch, cut in two by the network that is taught."""

    split: Split
    sight: Sight
    """What looks at a half, the same for both."""

    def selected(self) -> Seen:
        """Return what is made of the selected parts, as when graphs are scored."""
        return self.sight.look(self.split.selected())

    def rest(self) -> Seen:
        """Return what is made of the rest; norms remember nothing of it."""
        with unremembered(self.sight.net):
            return self.sight.look(self.split.rest())

    @torch.no_grad()
    def rest_untaught(self) -> Seen:
        """Return the same, with nothing to learn from it."""
        return self.rest()


def halves(told: Told) -> Halves:
    """Cut the graphs of a batch in two."""
    net, batch = told.sight.net, told.batch
    assert isinstance(net, Selecting)
    assert isinstance(batch, GraphBatch)
    with computing(told.sight.device, told.sight.precision):
        split = net.split(batch)
    return Halves(split, replace(told.sight, net=net.backbone))
