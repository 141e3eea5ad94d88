"""Compiled extensions are bit-identical to their NumPy fallbacks and reject invalid arguments."""

import shutil
import subprocess
import sys
import sysconfig
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from types import ModuleType
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx import ragged
from gsx._native import MODULES, load_extension
from gsx.ragged import Ragged, Runs, pointers
from gsx.seeds import rng
from gsx.stages.generate.featx import feature_extrapolation
from gsx.stages.generate.featx.feature_extrapolation import WrapAround, extrapolate_runs
from gsx.stages.graphs import wl_hash
from gsx.stages.graphs.feature_variance import FeatureRanges
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.stages.nn import pair_sampling
from gsx.stages.nn.pair_sampling import NodeRuns, draw_pairs, exponential
from tests.support.run_stages import run_stage
from tests.support.strategies import tables
from tests.support.synthetic_corpora import planted_graphs, write_planted

COMPILER = (sysconfig.get_config_var("CC") or "cc").split()[0]
needs_extensions = pytest.mark.skipif(
    ragged.native is None, reason="gsx was installed without a compiler: there are no extensions"
)


@contextmanager
def without_extensions():
    """Disable the compiled extensions, so that the NumPy fallbacks run."""
    with ExitStack() as stack:
        for module in (ragged, feature_extrapolation, wl_hash, pair_sampling):
            for name in extensions_of(module):
                stack.enter_context(mock.patch.object(module, name, None))
        yield


def extensions_of(module):
    """Return the compiled extensions that a module has imported, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, ModuleType) and value.__name__ in MODULES
    }


def extension_of(module):
    (extension,) = extensions_of(module).values()
    return extension


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"there is no compiler `{COMPILER}`")
def test_extensions_are_compiled_if_there_is_a_compiler():
    assert [name for name in MODULES if load_extension(name) is None] == []


def test_a_missing_extension_is_none():
    assert load_extension("gsx._no_such_loops") is None


@given(
    counts=st.lists(st.integers(0, 4), max_size=12),
    width=st.sampled_from([(), (1,), (3,), (2, 2)]),
    kind=st.sampled_from(["int8", "int32", "float32", "float64", "bool"]),
    seed=st.integers(0, 999),
)
def test_compiled_gather_equals_numpy(counts, width, kind, seed):
    random = rng(seed, "runs")
    values = random.integers(-9, 9, (17, *width)).astype(kind)
    counts = np.array(counts, dtype=np.int64)
    runs = Runs(random.integers(0, 14, len(counts)), counts)
    expected = values[runs.rows]
    actual = runs.take(values)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tobytes() == expected.tobytes()
    assert runs.take(values[:, None][:, ::-1]).tobytes() == expected.tobytes()  # not contiguous


@given(st.lists(st.integers(0, 3), min_size=6, max_size=6), st.integers(0, 99))
def test_runs_of_lists_are_the_lists_of_their_rows(lengths, seed):
    random = rng(seed, "lists")
    lists = Ragged(pointers(lengths), random.integers(0, 99, sum(lengths)))
    counts = random.integers(0, 3, 4)
    runs = Runs(random.integers(0, 4, 4), counts)
    assert runs.take_ragged(lists).equals(lists.take(runs.rows))
    with without_extensions():
        assert runs.take_ragged(lists).equals(lists.take(runs.rows))


def domains_of(random, width):
    """Draw feature ranges of every kind, mostly [0, 1]."""
    low = np.round(random.normal(size=width), 2) + 0.0
    high = low + np.round(random.gamma(2, 1, width), 2)
    step = np.where(random.random(width) < 0.4, (high - low) / random.integers(1, 5, width), 0.0)
    unit = random.random(width) < 0.4
    return FeatureRanges(
        np.where(unit, 0.0, low), np.where(unit, 1.0, high), np.where(unit | (high == low), 0, step)
    )


@needs_extensions
@given(
    width=st.integers(1, 10),
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=9),
    mirror=st.booleans(),
    seed=st.integers(0, 9999),
)
def test_extrapolated_features_equal_those_of_numpy(width, counts, mirror, seed):
    random = rng(seed, "move")
    ptr, domains = pointers(counts), domains_of(random, width)
    own = random.uniform(domains.low, domains.high, (ptr[-1], width)).astype(np.float32)
    partners = random.uniform(domains.low, domains.high, (7, width)).astype(np.float32)
    own[random.random(own.shape) < 0.2] = random.choice([0.0, -0.0, 1.0])
    partner = random.integers(0, 7, len(counts))
    strength = random.gamma(2, 2, len(counts)) * random.choice([0, 1, 1, -0.2, 1e6], len(counts))
    mask = random.random(width) < random.choice([0.5, 1.0])
    given_ = (
        own,
        partners,
        partner,
        strength,
        ptr,
        WrapAround.from_mask(mask, domains, mirror=mirror),
    )
    actual, same = extrapolate_runs(*given_)
    with without_extensions():
        expected, stay = extrapolate_runs(*given_)
    assert actual.tobytes() == expected.tobytes()
    assert same.tolist() == stay.tolist()
    assert same.tolist() == [
        bool((expected[a:b] == own[a:b]).all()) for a, b in pairwise(ptr.tolist())
    ]


@needs_extensions
@pytest.mark.parametrize("kind", ["float64", "int16"])
def test_inputs_that_the_extension_does_not_support_use_numpy(kind):
    own = np.array([[1, 5], [2, 0]], dtype=kind)
    domains = FeatureRanges(np.zeros(2), np.full(2, 5.0), np.ones(2))
    ways = WrapAround.from_mask(np.ones(2, bool), domains)
    given_ = (own, own, np.array([1, 0]), np.ones(2), np.arange(3), ways)
    actual, same = extrapolate_runs(*given_)
    assert (actual.dtype, actual.tolist()) == (own.dtype, [[0, 4], [3, 1]])
    assert not same.any()


@needs_extensions
@given(tables())
def test_compiled_wl_hashes_equal_those_of_numpy(drawn):
    table, _ = drawn
    actual = wl_hashes(table)
    with without_extensions():
        assert actual.tolist() == wl_hashes(table).tolist()


@needs_extensions
@given(
    attachments=st.integers(0, 12),
    width=st.integers(0, 9),
    scale=st.sampled_from([0.1, 1.0, 20.0]),
    use_free=st.booleans(),
    seed=st.integers(0, 9999),
)
def test_drawn_pairs_equal_those_of_numpy(attachments, width, scale, use_free, seed):
    random = rng(seed, "pairs")
    nodes, most, draws = 60, int(random.integers(1, 5)), int(random.integers(1, 7))
    terms = (scale * random.standard_normal((nodes, width + 1))).astype(np.float32)
    left_count, right_count = random.integers(0, 20, (2, attachments))
    left, right = random.integers(0, nodes - 20, (2, attachments))
    runs = NodeRuns(left, left_count, right, right_count)
    wanted = np.where(random.random(attachments) < 0.5, 0, random.integers(0, 9, attachments))
    uniform = random.random((attachments, draws))
    free = (random.random(nodes) < 0.3, left, right) if use_free else None
    actual = draw_pairs(terms, runs, wanted, most, uniform, free)
    with without_extensions():
        expected = draw_pairs(terms, runs, wanted, most, uniform, free)
    assert [column.tolist() for column in actual] == [column.tolist() for column in expected]
    attachment, pair = actual
    assert (pair < (left_count * right_count)[attachment]).all()
    assert len(np.unique(np.column_stack(actual), axis=0)) == len(pair)
    if free is not None:
        offset = np.divmod(pair, right_count[attachment])
        assert free[0][left[attachment] + offset[0]].all()
        assert free[0][right[attachment] + offset[1]].all()


def test_exponential_is_exact_to_float_precision():
    x = np.linspace(-30, 30, 10_001).astype(np.float32)
    assert exponential(x) == pytest.approx(np.exp(x.astype(np.float64)), rel=2e-7)


@pytest.mark.parametrize("options", [{}, {"count": 700, "featx_rounds": 2}, {"count": 100}])
def test_a_corpus_has_the_same_bytes_without_compiled_extensions(tmp_path, options):
    config = {"featx": True, "options": "000", "shard_graphs": 64, **options}
    digests = []
    for name in ("loops", "numpy"):
        with without_extensions() if name == "numpy" else ExitStack():
            corpus = write_planted(tmp_path / name, *planted_graphs(330), held_out=30)
            mask = run_stage(tmp_path / name, "mask", {"steps": 20}, {"prepare": corpus})
            given_ = {"prepare": corpus, "mask": mask}
            made = run_stage(tmp_path / name, "generate", config, given_)
            digests.append(made.manifest.digest)
    assert digests[0] == digests[1]


def floats(*shape):
    return np.zeros(shape, dtype=np.float32)


def ints(*values):
    return np.array(values, dtype=np.int64)


def words(count):
    return np.zeros(count, dtype=np.uint64)


def move(**other):
    """Extrapolate two runs with three rows in total; ``other`` replaces arguments."""
    fitting = {
        "kind": 0, "own": floats(3, 2), "partners": floats(4, 2), "partner": ints(0, 3),
        "strength": np.zeros(2), "ptr": ints(0, 1, 3), "low": np.zeros(2), "high": np.ones(2),
        "step": np.zeros(2), "out": floats(3, 2), "same": np.ones(2, dtype=bool),
    }  # fmt: skip
    extension_of(feature_extrapolation).move(*{**fitting, **other}.values())


def hashes(**other):
    """Hash two graphs of two nodes, the first with an edge; ``other`` replaces arguments."""
    fitting = {
        "color": words(4), "attr": words(0), "src": np.zeros(2, np.int32),
        "dst": np.ones(2, np.int32), "node_ptr": ints(0, 2, 4), "edge_ptr": ints(0, 2, 2),
        "rounds": 4, "out": words(2),
    }  # fmt: skip
    extension_of(wl_hash).graph_hashes(*{**fitting, **other}.values())


def pairs(**other):
    """Draw pairs of two attachments among four nodes; ``other`` replaces arguments."""
    fitting = {
        "terms": floats(4, 3), "width": 2, "left": ints(0, 2), "left_count": ints(2, 1),
        "right": ints(2, 0), "right_count": ints(2, 2), "free": np.ones(4, dtype=bool),
        "left_free": ints(0, 2), "right_free": ints(2, 0), "wanted": ints(1, 0), "most": 2,
        "uniform": np.full((2, 2), 0.5), "out": np.full((2, 2), -1),
    }  # fmt: skip
    extension_of(pair_sampling).draw_pairs(*{**fitting, **other}.values())


def gather(starts, counts, rows=3, width=8):
    """Gather runs of the rows 0 to 4 and return the output of ``rows`` rows."""
    out = np.zeros(rows, dtype=np.int64)
    extension_of(ragged).gather(np.arange(5), width, ints(*starts), ints(*counts), out)
    return out


@needs_extensions
def test_consistent_arguments_are_accepted():
    assert gather([2, 0], [1, 2]).tolist() == [2, 0, 1]
    out, same = floats(3, 2) + 7, np.ones(2, dtype=bool)
    move(out=out, same=same)
    assert out.tolist() == [[0, 0]] * 3
    assert same.all()
    move(out=floats(0, 2), own=floats(0, 2), ptr=ints(0, 0, 0))
    plain, attributed = words(2), words(2)
    hashes(out=plain)
    hashes(attr=words(2) + np.uint64(1), out=attributed)
    assert plain[0] != plain[1]
    assert plain[0] != attributed[0]
    assert plain[1] == attributed[1]  # the second graph has no edges
    drawn = np.full((2, 2), -1)
    pairs(out=drawn)
    assert drawn.tolist() == [[2, -1], [1, -1]]
    rows = words(2)
    extension_of(wl_hash).row_hashes(np.zeros((2, 3)), rows)
    assert rows[0] == rows[1] != 0
    extension_of(wl_hash).row_hashes(np.zeros((0, 3)), words(0))


@needs_extensions
@pytest.mark.parametrize(
    "call",
    [
        lambda: gather([3, 0], [3, 0]),
        lambda: gather([-1], [3]),
        lambda: gather([2], [-3]),
        lambda: gather([0], [2]),
        lambda: gather([0], [4]),
        lambda: gather([2**62], [3]),
        lambda: gather([0, 0], [3]),
        lambda: gather([0], [3], width=0),
        lambda: extension_of(ragged).gather(
            np.arange(5), 8, np.zeros(2, np.int32), ints(1), np.zeros(1)
        ),
        lambda: move(kind=5),
        lambda: move(kind=-1),
        lambda: move(own=floats(4, 2)),
        lambda: move(own=floats(3, 2).astype(np.float64)),
        lambda: move(partner=ints(0, 4)),
        lambda: move(partner=ints(-1, 0)),
        lambda: move(partner=ints(0)),
        lambda: move(partners=floats(7)),
        lambda: move(strength=np.zeros(3)),
        lambda: move(ptr=ints(0, 1, 4)),
        lambda: move(ptr=ints(0, 4, 3)),
        lambda: move(ptr=ints(1, 2, 3)),
        lambda: move(ptr=ints(0, 3)),
        lambda: move(low=np.zeros(0), high=np.zeros(0), step=np.zeros(0)),
        lambda: move(high=np.ones(3)),
        lambda: move(step=np.ones(1)),
        lambda: move(same=np.ones(3, dtype=bool)),
        lambda: move(**dict.fromkeys(("own", "out"), floats(3, 2))),
        lambda: pairs(width=3),
        lambda: pairs(width=-1),
        lambda: pairs(width=2**62),
        lambda: pairs(left=ints(0, 4)),
        lambda: pairs(left=ints(-1, 0)),
        lambda: pairs(left_count=ints(5, 0)),
        lambda: pairs(left_count=ints(-1, 0)),
        lambda: pairs(right=ints(3, 0)),
        lambda: pairs(right=ints(0)),
        lambda: pairs(right_count=ints(2**62, 0)),
        lambda: pairs(free=np.ones(3, dtype=bool)),
        lambda: pairs(left_free=ints(3, 0)),
        lambda: pairs(right_free=ints(-2, 0)),
        lambda: pairs(wanted=ints(1)),
        lambda: pairs(uniform=np.zeros((2, 1))),
        lambda: pairs(out=np.zeros((2, 2), dtype=np.int32)),
        lambda: hashes(src=np.full(2, 2, np.int32)),
        lambda: hashes(dst=np.full(2, -1, np.int32)),
        lambda: hashes(dst=np.zeros(3, np.int32)),
        lambda: hashes(src=np.zeros(2, np.int64), dst=np.zeros(2, np.int64)),
        lambda: hashes(attr=words(1)),
        lambda: hashes(node_ptr=ints(0, 2, 5)),
        lambda: hashes(node_ptr=ints(0, 2)),
        lambda: hashes(edge_ptr=ints(0, 3, 2)),
        lambda: hashes(edge_ptr=ints(0, 0, 2), node_ptr=ints(0, 4, 4)),
        lambda: hashes(color=words(3)),
        lambda: extension_of(wl_hash).row_hashes(np.zeros(5), words(2)),
        lambda: extension_of(wl_hash).row_hashes(np.zeros(5), words(0)),
    ],
)
def test_inconsistent_arguments_are_refused_before_any_read(call):
    message = r"fit each other|inconsistent|exceed the rows|number of hashes differs"
    with pytest.raises(ValueError, match=message):
        call()


EXTREMES = st.sampled_from(
    [0, 1, 2, 3, 4, 5, -1, -2, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63), 2**63 - 4]
)
LISTS = st.lists(EXTREMES, max_size=5)


@needs_extensions
@given(starts=LISTS, counts=LISTS, rows=st.integers(0, 6))
def test_gather_reads_no_row_outside_its_input(starts, counts, rows):
    """A run either lies within the five rows and fills the output, or the call is refused."""
    fits = len(starts) == len(counts) and sum(counts) == rows
    fits &= all(c >= 0 and 0 <= s <= 5 - c for s, c in zip(starts, counts, strict=False))
    if fits:
        expected = [row for s, c in zip(starts, counts, strict=True) for row in range(s, s + c)]
        assert gather(starts, counts, rows).tolist() == expected
        return
    with pytest.raises(ValueError, match="exceed the rows"):
        gather(starts, counts, rows)


def is_valid_ptr(ptr, runs, rows):
    return len(ptr) == runs + 1 and ptr[0] == 0 and ptr[-1] == rows and ptr == sorted(ptr)


@needs_extensions
@given(ptr=LISTS, partner=LISTS)
def test_extrapolation_reads_no_row_outside_its_input(ptr, partner):
    arguments = {"ptr": ints(*ptr), "partner": ints(*partner)}
    if is_valid_ptr(ptr, 2, 3) and len(partner) == 2 and all(0 <= row < 4 for row in partner):
        move(**arguments)
        return
    with pytest.raises(ValueError, match="fit each other"):
        move(**arguments)


@needs_extensions
@given(
    node_ptr=LISTS,
    edge_ptr=LISTS,
    ends=st.lists(st.sampled_from([0, 1, 2, -1, 2**31 - 1, -(2**31)]), min_size=4, max_size=4),
)
def test_hashes_read_no_node_or_edge_outside_their_input(node_ptr, edge_ptr, ends):
    src, dst = (np.array(part, dtype=np.int32) for part in (ends[:2], ends[2:]))
    arguments = {
        "node_ptr": ints(*node_ptr), "edge_ptr": ints(*edge_ptr), "src": src, "dst": dst,
    }  # fmt: skip
    fits = is_valid_ptr(node_ptr, 2, 4) and is_valid_ptr(edge_ptr, 2, 2)
    for graph in range(2 if fits else 0):
        inside = slice(edge_ptr[graph], edge_ptr[graph + 1])
        nodes = node_ptr[graph + 1] - node_ptr[graph]
        fits &= all(0 <= end < nodes for end in [*src[inside], *dst[inside]])
    if fits:
        hashes(**arguments)
        return
    with pytest.raises(ValueError, match="inconsistent"):
        hashes(**arguments)


@needs_extensions
def test_a_read_only_output_is_refused():
    out = floats(3, 2)
    out.flags.writeable = False
    with pytest.raises((TypeError, BufferError, ValueError)):
        move(out=out)


def test_gsx_runs_without_compiled_extensions_and_doctor_reports_it(tmp_path):
    """Run a command in a process that cannot import the extensions."""
    code = (
        "import importlib.abc, sys\n"
        "class Without(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name in {MODULES!r}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "from gsx.cli.main import main\n"
        "sys.argv = ['gsx', 'doctor', '--json']; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert '"loops", "state": "warn"' in " ".join(done.stdout.split())
