"""Columns of generated graphs."""

import numpy as np

from gsx.ragged import decode_texts
from gsx.schema import ORIGINS, SPLITS
from gsx.stages.augmented.derived_columns import (
    derived_columns,
    missing_values,
    one_parent_each,
    repeat_text,
)


def test_provenance_is_empty_or_missing_by_default():
    parents = one_parent_each(np.array([5, 9]))
    columns = derived_columns(2, origin="featx", stream="generate/featx/0", parents=parents)
    assert columns["split"].tolist() == [SPLITS.index("train")] * 2
    assert columns["origin"].tolist() == [ORIGINS.index("featx")] * 2
    assert columns["domain_id"].tolist() == [-1, -1]
    assert columns["provenance.parents"].values.tolist() == [5, 9]
    for name, dtype in (("node_slot", "int16"), ("node_number", "int32"), ("bridges", "int32")):
        column = columns[f"provenance.{name}"]
        assert column.ptr.tolist() == [0, 0, 0]
        assert column.values.dtype == dtype
    assert np.isnan(columns["provenance.lambda"]).all()
    assert columns["provenance.lambda"].dtype == np.float32
    assert columns["provenance.partner"].tolist() == [-1, -1]
    assert decode_texts(columns["provenance.stream"]) == ["generate/featx/0"] * 2


def test_missing_values_depend_on_the_type():
    assert np.isnan(missing_values(np.dtype("float32"), (2,))).all()
    assert missing_values(np.dtype("int8"), (2,)).tolist() == [-1, -1]
    assert missing_values(np.dtype("uint8"), (2, 1)).tolist() == [[0], [0]]


def test_text_is_repeated_in_every_row():
    assert decode_texts(repeat_text("λ", 3)) == ["λ"] * 3
    assert decode_texts(repeat_text("x", 0)) == []
