"""Catalog of raw files for `gsx fetch`: public URLs, sizes and SHA-256.

Repositories are pinned to a commit if it is known. The hash of a text file covers its non-blank
lines without line endings, because copies differ in these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gsx.stages.prepare.dataset import DatasetMetadata

_GITHUB = "https://raw.githubusercontent.com"
_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A published file."""

    urls: tuple[str, ...]
    """URLs, tried in order."""
    size: int
    """Approximate size in bytes."""
    sha256: str
    lines: bool = False
    """Whether the hash covers the lines of a text file."""


_BINARY = {
    "dd/DD.zip": (
        f"{_GITHUB}/yeweiysh/IHGNN/dcb2c23cdc06f3ed8cc1dd0f0dced9ddd9156bad/data/DD.zip",
        2_559_550, "0ce3eca1f096ce77ff6fb2287b2b45d0d6991ca1f15734fc873a1003ac79c34d",
    ),
    "nci1/NCI1_TU.zip": (
        f"{_GITHUB}/bknyaz/graph_nn/42424688d23f34f6b6e9b4c110f3381c02198312/data/NCI1.zip",
        802_908, "eae6b0c076d59e667c67de0039cfc3214eefb91a8dddc2fa3099126da02d4376",
    ),
    "cora_ml/cora_ml.npz": (
        f"{_GITHUB}/gasteigerjo/ppnp/3fe09b4582a96fc20bfcae6e9e0d7682deba2c92/ppnp/data/"
        "cora_ml.npz",
        1_622_234, "e3439bfd32c4a962d5c56a4f313793baee39181c208c90a3915b61183d3e1cda",
    ),
    "coauthor_cs/coauthor_cs.npz": (
        f"{_GITHUB}/EdisonLeeeee/GraphData/b82d4dd2ed63cdcbb318d793597099ef6b1e8fe5/datasets/"
        "coauthor_cs.npz",
        2_351_405, "0da82547efb192c1223d5043611fb235bf363b1a49901db94746e7cfb6fb3cc5",
    ),
    "mnist/train-images-idx3-ubyte.gz": (
        f"{_MNIST}/train-images-idx3-ubyte.gz",
        9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    "mnist/train-labels-idx1-ubyte.gz": (
        f"{_MNIST}/train-labels-idx1-ubyte.gz",
        28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    "mnist/t10k-images-idx3-ubyte.gz": (
        f"{_MNIST}/t10k-images-idx3-ubyte.gz",
        1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    "mnist/t10k-labels-idx1-ubyte.gz": (
        f"{_MNIST}/t10k-labels-idx1-ubyte.gz",
        4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
}  # fmt: skip
_TEXT = {
    "hiv/HIV.csv": (2_111_588, "b72f0cf00cd1f45ae5c415f21aef10e69187e30dd24029ddb345fbca35b0d798"),
    "webkb/cornell/out1_graph_edges.txt": (
        2_001,
        "c4522a00cc40873c8a04a3a07c49e24a48a507eb284ac9c9f2d3e0590351bbb7",
    ),
    "webkb/cornell/out1_node_feature_label.txt": (
        624_308,
        "cf5a3ca346cdd1210b8342e22517fcbbdae658065b7a3145f59350e50e6236a3",
    ),
    "webkb/texas/out1_graph_edges.txt": (
        2_172,
        "0fe85183243a78cbee9b85a684f8240963d04d1020d10e9cd2b8cfb25e33b476",
    ),
    "webkb/texas/out1_node_feature_label.txt": (
        624_308,
        "cf5a3ca346cdd1210b8342e22517fcbbdae658065b7a3145f59350e50e6236a3",
    ),
    "webkb/wisconsin/out1_graph_edges.txt": (
        3_606,
        "ebd213511c88fce1eda450c2f920600c4b8cbb38f02384856bcc47c6ec1807ae",
    ),
    "webkb/wisconsin/out1_node_feature_label.txt": (
        856_324,
        "a32b0aa38d42f0d36841e8a8cb646d197f0ff33a182ac75a2b4476aeed3c7e4b",
    ),
    "twitch/DE/musae_DE_edges.csv": (
        1_499_865,
        "54feaf3e3e70a485fe07f8611e4d2677841b97f77b8358204bcf4a48cc884d86",
    ),
    "twitch/DE/musae_DE_features.json": (
        1_167_905,
        "534676cd8f01794fa923b181ed74db5e68ab2b539cacda64c552eafa9fdc8dc7",
    ),
    "twitch/DE/musae_DE_target.csv": (
        338_721,
        "2188f58a093bb9db363d3eaf7c3a52c2adc8ff6b23cbcb4f53875f87061c0321",
    ),
    "twitch/ENGB/musae_ENGB_edges.csv": (
        342_162,
        "5ea4d7f7267454e9523577eb2a9b4dcb7a22dd660a548240f01b815d08e0e3cc",
    ),
    "twitch/ENGB/musae_ENGB_features.json": (
        893_932,
        "efcd846f7b687d299c9c674f3cda43cd70de8307d2558895bddd3645eb38d500",
    ),
    "twitch/ENGB/musae_ENGB_target.csv": (
        253_352,
        "e9d51399878216d2dd662b0a152b602cccde7b5cbb8452cb91d9379f64114443",
    ),
    "twitch/ES/musae_ES_edges.csv": (
        563_757,
        "17801d2cc45fc4909a431ce7a190c0565d4af87b0548ca7705cf2bef7da4c884",
    ),
    "twitch/ES/musae_ES_features.json": (
        545_028,
        "598a610ef7e0469c5ad800c11f7ad89797e6a27d7d66b670782a5516cc344725",
    ),
    "twitch/ES/musae_ES_target.csv": (
        165_932,
        "f843427bae58289100e78c6c211fa4a1ae0d5fbf2c665841df9e390b00dcffb5",
    ),
    "twitch/FR/musae_FR_edges.csv": (
        1_090_900,
        "9924263f7e8edaa7278dcbc37bd90c8712cb0ea1726d85e054a5588b7959f887",
    ),
    "twitch/FR/musae_FR_features.json": (
        781_778,
        "b6ecbefd5606f46d30a9b4be7b574e5427d9e0314f1bd6a1861942ae718d3573",
    ),
    "twitch/FR/musae_FR_target.csv": (
        234_662,
        "dd0a9e7ba565cbb95ae66003892709742bd08c26387656e3e235fc25205663b4",
    ),
    "twitch/PTBR/musae_PTBR_edges.csv": (
        275_216,
        "b72d93a3c8a82883771a2f3822fce229885fa0d40367fb105c0535fb36c773b9",
    ),
    "twitch/PTBR/musae_PTBR_features.json": (
        229_854,
        "12ba6c60ce009b1bec8fd5ad110539775d14a2b96011df19ba9f72ad1393a406",
    ),
    "twitch/PTBR/musae_PTBR_target.csv": (
        67_878,
        "ecba7d1287e72ae7c3f42c922be475283288c0c67346245c72109690460444bd",
    ),
    "twitch/RU/musae_RU_edges.csv": (
        351_398,
        "fd307587a550289f746056ea12a7336171ab2053c9e08c42dba77499126ca5b2",
    ),
    "twitch/RU/musae_RU_features.json": (
        545_944,
        "c5357468471545a6169de463ef706f321446dc667d9d62d49e68c0b3feef9675",
    ),
    "twitch/RU/musae_RU_target.csv": (
        158_570,
        "db7617528355be994352e491e7b25d060fed466d0d81c09cadd90fa10f15c071",
    ),
}
_TEXT_BASES = {
    "hiv": (
        f"{_GITHUB}/hwwang55/MolR/master/data/HIV",
        "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets",
    ),
    "webkb": (f"{_GITHUB}/graphdml-uiuc-jlu/geom-gcn/master/new_data",),
    "twitch": (f"{_GITHUB}/CUAI/Non-Homophily-Large-Scale/master/data/twitch",),
}


def _text_urls(path: str) -> tuple[str, ...]:
    folder, _, rest = path.partition("/")
    return tuple(f"{base}/{rest}" for base in _TEXT_BASES[folder])


REMOTE_FILES: Mapping[str, RemoteFile] = {
    **{
        path: RemoteFile(urls=(url,), size=size, sha256=sha256)
        for path, (url, size, sha256) in _BINARY.items()
    },
    **{
        path: RemoteFile(urls=_text_urls(path), size=size, sha256=sha256, lines=True)
        for path, (size, sha256) in _TEXT.items()
    },
}
"""Path below the raw data directory → file."""


def remote_files(metadata: DatasetMetadata) -> dict[str, RemoteFile] | None:
    """Return path → file to download for a dataset; None if a file is not in the catalog."""
    files: dict[str, RemoteFile] = {}
    for needed in metadata.raw:
        paths = [path for path in needed.paths if path in REMOTE_FILES]
        if not paths:
            return None
        files[paths[0]] = REMOTE_FILES[paths[0]]
    return files
