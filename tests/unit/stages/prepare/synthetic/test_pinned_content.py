"""The content and the keys of built-in datasets stay what they are.

Stored results depend on the published datasets, and the confirmation data are frozen. Digests are
of arrays, not of files, so they do not depend on library versions.
"""

import hashlib

import msgspec
import pytest

from gsx.pipeline.plan import identity_of, make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_stage

PINNED = {
    "motif-size": (
        "f0563d71d2a6d4dc35280b2a192278937908dfa0d7962d9289fbb1836a042739",
        "abc32f8e160e80a69514501e556c2c75348f5120cbbde9daa427254d6537cf9b",
    ),
    "motif-base": (
        "a1e917fe7b8e30fd31d9ad124b7d9af0f65d1488f5641a0c152d05ae721564ba",
        "5cfbfb5a17f5108d5eb516499dbaa4df20419d052523ed35fea459b12575e478",
    ),
    "motif-size-concept": (
        "c9fa6cd3dbf6ed2e42464ff551cde9448fd3914526ad6e5d938322b8d3918125",
        "409a44e387c3db9299ea8475a6a64c0ae25721b3c32964d3eea963a95f46feee",
    ),
    "motif-base-concept": (
        "93023cb4e4230a45a22a99e6b997bd6f603e693d58d27fd86f26be548ecf8f16",
        "f08e57e6fbd0deccc96b938cc0a5c9746bd43cae5666f437befd44685cb6cb05",
    ),
    "motif-lobo-wheel": (
        "9f7e121d47edad0d4e9c8072e0f946d92f739eb8c14f1d0db65701a838ebe266",
        "b30394706205b443831667a19f9cf2fc8384a5c1ef539ef31272ff853a8377bc",
    ),
    "motif-lobo-tree": (
        "a4b2df86d1bf1fecf705d6c3ea4ab77dd27330ad23d6c164d8acb892ff1b1c3c",
        "006e5914081e7fb7dcc6f2b6fd24c63e963ac79852a86ae6729bf790571c2590",
    ),
    "motif-lobo-ladder": (
        "2e45608aeb9c47f4ece016ecb6dda8e485af671f60d9ac9173402a5bcd470868",
        "26a001a1266ce58e2e581dc840d01bd07afbc9f929a090b17c0fef094a238d72",
    ),
    "motif-lobo-star": (
        "38267131f0b168d5008c710f4d065c2b7bcd06fe8daad7eb7dc9252050d5d8e5",
        "2fedaa6d4dd7191dcb31cc655248c5441cf40f045386d600cb8e4414e8361f95",
    ),
    "motif-lobo-path": (
        "6e7b078e5923b34e99274bc434ec83a4f993030cacc20f4fd82ecda651b670ec",
        "62e742942a7ed05b58fd0d12d1066a3e563766e75ccbf0297d7f5e846941642d",
    ),
    "motif-lobo-grid": (
        "6961cade1f4097d628bf9e33f055c41a8b93d46fe6765e2a722ca5cf31679a04",
        "34a3982cb9a2a0df9c60c3597b8891146327232540bb96839d924e9cd6945fec",
    ),
    "motif-lobo-caterpillar": (
        "d5c08661a400dc6bc5dd2dc09953ca1a776148701a3c05e6f491585e718d7453",
        "d116ac5580cef275d8819e39644b4da5ce961c0d876deafb67c8303f9e8b2c83",
    ),
    "motif-lobo-barabasi-albert": (
        "d6e4470b0962b00ac4e0cc417228a88f9091663181d3414e5f03d2e9f8cff81f",
        "4bb8ce5d1ea88840e06873c65d97a57da630c5b9a630558eec7c6dfccc516efb",
    ),
    "motif-lobo-cycle": (
        "98256f3c7c316c4bd2d14e0296d1cbd7ce50fa130cdef802f831630c08424eb3",
        "8bd7c5d8676b21262adc1c8ced06cadb77c50097cc6d31c2d20427e3fabf8605",
    ),
    "motif-lobo-barbell": (
        "f5e0ca370796652082239a70f5f0179f8b553b25428fd0dcccf26e9e551e8288",
        "80603ecda1514241b53fc27fe53e3f663993976f2d553a4749834136edf856a5",
    ),
    "motif2-size": (
        "772414ea0ce0226787f33a7c0e8a70bbc31ce3c54b15fb7790ef0bf2c3bc7d60",
        "02075e1e8a35d6fd545657373d5eea696fe0020b0e02239702d7329d8455b81d",
    ),
    "motif2-size-down": (
        "e03040b513a25a05a91ba9834b20e2ff4bde62d8dc988840b6812cb25f551d5b",
        "709729f79e1969dcb3ae78b2f4ecaab7c29ddd11f936fba37bb6fa6b2ec2d502",
    ),
    "motif2-base": (
        "0e183f33104e619552e4bab5a74d31e89b7d4951abae82be354aadf4b785f8d2",
        "cf7812f466ad55bcc11e774504c0ea2df87b18cb69e907054a3fd87c02eeb002",
    ),
    "fsmotif-size-color": (
        "432e6903ca4918790daea74d98c50f21b58e8962fb99f2b3797d9ef687437628",
        "13b28ac9aff702b6f0708d3853e14d7886384bf860e1647260229bfe05f743d0",
    ),
    "fsmotif-base-color": (
        "0e7ae204af3778f3bf8c559f159d813adbea7230ded0e77d0bc6cd22b2fa5e8d",
        "fc9fbdcd57dbd3212bb4ccce520b80afeaebdd8adc425e5da126e818476e5b94",
    ),
    "cbas-color": (
        "2b4cb26f709be51398dc845b751eb16edffc08ec0ff215e143545ceeedf0342c",
        "c8f2d587d474c99bfe170e76b2dee5cad347ca9aaf7c1b2aeaf92700d2b72864",
    ),
}
"""Name of the dataset → key and content digest of its corpus with 40 graphs."""
FULL_KEYS = {
    "motif-size": "3e0a8b371d945179a860e95e4e92e8d2dd392147b926ffef9a3570b10c3b1684",
    "motif-base": "6627902d8298915fbd9fd08521be360dc89d16960a886ec87393323a5e77c16a",
    "motif-size-concept": "4a60a679f6bf508111ce1f603c2a4a09fc68d99d142a4b6df4079e5f8e0010a6",
    "motif-base-concept": "2564c7da186ebc1a3aa08181e7d943a5e2913dd83920fec4337869be44043f00",
    "fsmotif-size-color": "51e0d71bb1f2c57712db1efca16e33a84d971c84920508c4fa4e30a63f31c620",
    "fsmotif-base-color": "fc8ef31938e71ac0bbf00152b124d285a3d6e29e1ba21d0621fc5d0e104e604d",
    "cbas-color": "2b4cb26f709be51398dc845b751eb16edffc08ec0ff215e143545ceeedf0342c",
}
"""Name of the dataset → key of its corpus with the published number of graphs."""


def content_digest(corpus):
    """Return the SHA-256 of all arrays of a corpus and of its description."""
    table, digest = corpus.table(), hashlib.sha256()
    digest.update(table.node_ptr.tobytes() + table.edge_ptr.tobytes())
    for columns in (table.graph, table.node, table.edge):
        for name, column in sorted(columns.items()):
            arrays = (column,) if hasattr(column, "dtype") else (column.ptr, column.values)
            for array in arrays:
                digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    digest.update(msgspec.json.encode(corpus.info))
    return digest.hexdigest()


@pytest.mark.parametrize("name", list(PINNED))
def test_datasets_keep_key_and_content(name, tmp_path):
    options = {"dataset": name} | ({"num_graphs": 40} if "motif" in name else {})
    artifact = run_stage(tmp_path, "prepare", options, {})
    assert (artifact.key, content_digest(Corpus(artifact))) == PINNED[name]


@pytest.mark.parametrize("name", list(FULL_KEYS))
def test_full_datasets_keep_their_keys(name):
    (step,) = make_plan(parse_recipe(f'[prepare]\ndataset = "{name}"\n', "t.toml"))
    assert identity_of(step, {}).key == FULL_KEYS[name]
