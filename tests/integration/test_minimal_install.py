"""A corpus is built and read with the minimal dependencies, without torch."""

import subprocess
import sys

HEAVY = ("torch", "torch_geometric", "dask", "distributed", "rdkit", "pandas", "networkx", "scipy")
BLOCK = (
    "import sys\n"
    "class Block:\n"
    "    def find_spec(self, name, path=None, target=None):\n"
    f"        if name.split('.')[0] in {HEAVY!r}: raise ImportError('blocked ' + name)\n"
    "sys.meta_path.insert(0, Block())\n"
)


def run(code, cwd):
    return subprocess.run(
        [sys.executable, "-c", BLOCK + code], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_corpora_are_built_and_read_as_tables_without_torch(tmp_path):
    code = (
        "sys.argv = ['gsx', 'prepare', 'motif-size', '--num-graphs', '60', '-q']\n"
        "from gsx.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "import gsx\n"
        "from gsx.storage.artifacts.store import Store\n"
        "corpus = gsx.open(next(Store.at().artifacts('corpus')).key)\n"
        "table = corpus.table(split='train', columns=['node_feat', 'y'])\n"
        "print(len(corpus), len(table), table.node['node_feat'].shape[1])\n"
    )
    result = run(code, tmp_path)
    assert result.stdout.split() == ["60", "36", "1"], result.stderr


def test_importing_gsx_imports_no_array_library(tmp_path):
    code = "import gsx; print([m for m in ('numpy', 'pyarrow', 'zarr') if m in sys.modules])"
    assert run(code, tmp_path).stdout.strip() == "[]"
