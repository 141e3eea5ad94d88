"""Open datasets from user files in tests."""

from gsx.stages.prepare.dataset import DatasetRequest
from gsx.stages.prepare.user.dataset import open_user_dataset
from gsx.stages.prepare.user.options import resolve_user_options
from gsx.validation import validate_table


def open_user_file(path, name="smiles", seed=0, **options):
    """Open a user dataset of kind ``name``; the target of SMILES tables is ``active``."""
    if name == "smiles":
        options = {"targets": ("active",), **options}
    options = resolve_user_options(name, {"file": str(path), **options})
    request = DatasetRequest(name=name, num_graphs=None, seed=seed, raw={}, options=options)
    return open_user_dataset(request)


def build_splits(dataset):
    """Return split → validated graphs of a dataset."""
    return {
        split: validate_table(dataset.build(split, 0, size), dataset.info)
        for split, size in dataset.split_sizes.items()
    }


def equal_graphs(left, right):
    """Return whether two datasets have equal graphs in every split."""
    graphs = build_splits(right)
    return all(table.equals(graphs[split]) for split, table in build_splits(left).items())
