"""Compiled loops give the bits that their twins in NumPy give, and refuse what does not fit."""

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
from gsx.stages.generate.featx import feature_extrapolation as moving
from gsx.stages.generate.featx.feature_extrapolation import WrapAround, extrapolate_runs
from gsx.stages.graphs import wl_hash as wl
from gsx.stages.graphs.feature_variance import FeatureRanges
from gsx.stages.graphs.wl_hash import wl_hashes
from tests.support.run_stages import run_stage
from tests.support.strategies import tables
from tests.support.synthetic_corpora import planted_graphs, write_planted

COMPILER = (sysconfig.get_config_var("CC") or "cc").split()[0]
needs_loops = pytest.mark.skipif(
    ragged.native is None, reason="gsx was installed without a compiler: there are no loops"
)


@contextmanager
def numpy_alone():
    """Disable the compiled extensions, so that the NumPy fallbacks run."""
    with ExitStack() as stack:
        for module in (ragged, moving, wl):
            for name, value in list(vars(module).items()):
                if isinstance(value, ModuleType) and value.__name__ in MODULES:
                    stack.enter_context(mock.patch.object(module, name, None))
        yield


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"there is no compiler `{COMPILER}`")
def test_where_there_is_a_compiler_loops_are_compiled():
    assert [name for name in MODULES if load_extension(name) is None] == []


def test_loops_that_were_not_compiled_are_none():
    assert load_extension("gsx._no_such_loops") is None


@given(
    counts=st.lists(st.integers(0, 4), max_size=12),
    width=st.sampled_from([(), (1,), (3,), (2, 2)]),
    kind=st.sampled_from(["int8", "int32", "float32", "float64", "bool"]),
    seed=st.integers(0, 999),
)
def test_runs_are_gathered_alike(counts, width, kind, seed):
    random = rng(seed, "runs")
    values = random.integers(-9, 9, (17, *width)).astype(kind)
    counts = np.array(counts, dtype=np.int64)
    runs = Runs(random.integers(0, 14, len(counts)), counts)
    expected = values[runs.rows]
    found = runs.take(values)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()
    assert runs.take(values[:, None][:, ::-1]).tobytes() == expected.tobytes()  # not in one piece


@given(st.lists(st.integers(0, 3), min_size=6, max_size=6), st.integers(0, 99))
def test_runs_of_lists_are_the_lists_of_their_rows(lengths, seed):
    random = rng(seed, "lists")
    lists = Ragged(pointers(lengths), random.integers(0, 99, sum(lengths)))
    counts = random.integers(0, 3, 4)
    runs = Runs(random.integers(0, 4, 4), counts)
    assert runs.take_ragged(lists).equals(lists.take(runs.rows))
    with numpy_alone():
        assert runs.take_ragged(lists).equals(lists.take(runs.rows))


def domains_of(random, width):
    """Draw domains of every kind, those from 0 to 1 most often."""
    low = np.round(random.normal(size=width), 2) + 0.0
    high = low + np.round(random.gamma(2, 1, width), 2)
    step = np.where(random.random(width) < 0.4, (high - low) / random.integers(1, 5, width), 0.0)
    unit = random.random(width) < 0.4
    return FeatureRanges(
        np.where(unit, 0.0, low), np.where(unit, 1.0, high), np.where(unit | (high == low), 0, step)
    )


@needs_loops
@given(
    width=st.integers(1, 10),
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=9),
    mirror=st.booleans(),
    seed=st.integers(0, 9999),
)
def test_features_are_moved_alike(width, counts, mirror, seed):
    random = rng(seed, "move")
    ptr, domains = pointers(counts), domains_of(random, width)
    own = random.uniform(domains.low, domains.high, (ptr[-1], width)).astype(np.float32)
    partners = random.uniform(domains.low, domains.high, (7, width)).astype(np.float32)
    own[random.random(own.shape) < 0.2] = random.choice([0.0, -0.0, 1.0])
    partner = random.integers(0, 7, len(counts))
    strength = random.gamma(2, 2, len(counts)) * random.choice([0, 1, 1, -0.2, 1e6], len(counts))
    mask = random.random(width) < random.choice([0.5, 1.0])
    given_ = (own, partners, partner, strength, ptr, WrapAround.of(mask, domains, mirror=mirror))
    found, same = extrapolate_runs(*given_)
    with numpy_alone():
        expected, stay = extrapolate_runs(*given_)
    assert found.tobytes() == expected.tobytes()
    assert same.tolist() == stay.tolist()
    assert same.tolist() == [
        bool((expected[a:b] == own[a:b]).all()) for a, b in pairwise(ptr.tolist())
    ]


@needs_loops
@pytest.mark.parametrize("kind", ["float64", "int16"])
def test_what_loops_do_not_take_is_moved_by_numpy(kind):
    own = np.array([[1, 5], [2, 0]], dtype=kind)
    domains = FeatureRanges(np.zeros(2), np.full(2, 5.0), np.ones(2))
    ways = WrapAround.of(np.ones(2, bool), domains)
    given_ = (own, own, np.array([1, 0]), np.ones(2), np.arange(3), ways)
    found, same = extrapolate_runs(*given_)
    assert (found.dtype, found.tolist()) == (own.dtype, [[0, 4], [3, 1]])
    assert not same.any()


@needs_loops
@given(tables())
def test_graphs_are_hashed_alike(drawn):
    table, _ = drawn
    found = wl_hashes(table)
    with numpy_alone():
        assert found.tolist() == wl_hashes(table).tolist()


@pytest.mark.parametrize("options", [{}, {"count": 700, "featx_rounds": 2}, {"count": 100}])
def test_a_corpus_has_the_same_bytes_without_loops(tmp_path, options):
    config = {"featx": True, "options": "000", "shard_graphs": 64, **options}
    digests = []
    for name in ("loops", "numpy"):
        with numpy_alone() if name == "numpy" else ExitStack():
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
    """Call the loop that moves two runs of three rows in all; ``other`` replaces arguments."""
    fitting = {
        "kind": 0, "own": floats(3, 2), "partners": floats(4, 2), "partner": ints(0, 3),
        "strength": np.zeros(2), "ptr": ints(0, 1, 3), "low": np.zeros(2), "high": np.ones(2),
        "step": np.zeros(2), "out": floats(3, 2), "same": np.ones(2, dtype=bool),
    }  # fmt: skip
    moving.loops.move(*{**fitting, **other}.values())


def hashes(**other):
    """Call the loop that hashes two graphs of two nodes, the first with an edge."""
    fitting = {
        "color": words(4), "attr": words(0), "src": np.zeros(2, np.int32),
        "dst": np.ones(2, np.int32), "node_ptr": ints(0, 2, 4), "edge_ptr": ints(0, 2, 2),
        "rounds": 4, "out": words(2),
    }  # fmt: skip
    wl.native.graph_hashes(*{**fitting, **other}.values())


def gather(starts, counts, room=3, width=8):
    ragged.native.gather(np.arange(5), width, ints(*starts), ints(*counts), np.zeros(room))


@needs_loops
def test_what_fits_is_taken():
    gather([2, 0], [1, 2])
    move()
    move(out=floats(0, 2), own=floats(0, 2), ptr=ints(0, 0, 0))
    hashes()
    hashes(attr=words(2))
    wl.native.row_hashes(np.zeros((2, 3)), words(2))
    wl.native.row_hashes(np.zeros((0, 3)), words(0))


@needs_loops
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
        lambda: ragged.native.gather(np.arange(5), 8, np.zeros(2, np.int32), ints(1), np.zeros(1)),
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
        lambda: wl.native.row_hashes(np.zeros(5), words(2)),
        lambda: wl.native.row_hashes(np.zeros(5), words(0)),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_read(call):
    message = r"fit each other|inconsistent|exceed the rows|number of hashes differs"
    with pytest.raises(ValueError, match=message):
        call()


@needs_loops
def test_what_cannot_be_written_is_refused():
    out = floats(3, 2)
    out.flags.writeable = False
    with pytest.raises((TypeError, BufferError, ValueError)):
        move(out=out)


def test_gsx_runs_and_says_so_where_no_loops_can_be_imported(tmp_path):
    """A whole command in a process that finds none of the compiled modules."""
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
