"""Croissant 1.1 metadata of a corpus, with the fields of the RAI vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gsx import __version__
from gsx.schema import Column
from gsx.stages.export.card_text import corpus_description, limitations, lineage_lines, spdx_url
from gsx.stages.export.request import ExportRequest
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.manifest import FileEntry

_PARQUET = "application/x-parquet"
_TYPES = {"int": "sc:Integer", "uint": "sc:Integer", "float": "sc:Float"}
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""JSON-LD context of Croissant 1.1."""


def croissant_json(request: ExportRequest, files: Mapping[str, FileEntry]) -> bytes:
    """Return ``croissant.json``."""
    info = request.corpus.info
    return readable_json(
        {
            "@context": _CONTEXT,
            "@type": "sc:Dataset",
            "conformsTo": [
                "http://mlcommons.org/croissant/1.1",
                "http://mlcommons.org/croissant/RAI/1.0",
            ],
            "name": info.name,
            "description": corpus_description(request),
            "version": "1.0.0",
            "license": spdx_url(info.licence),
            "citeAs": info.citation
            or f"{info.name}, content {request.corpus.artifact.manifest.digest}",
            "datePublished": request.date,
            "creator": {"@type": "sc:Organization", "name": request.creator or "not stated"},
            "url": request.url or f"urn:sha256:{request.corpus.artifact.manifest.digest}",
            "keywords": ["graphs", "out-of-distribution", info.domain, info.task],
            "isLiveDataset": False,
            "distribution": _distribution(files),
            "recordSet": [_splits(request), _environments(request), _graphs(request)],
            **_rai_fields(request),
        }
    )


def _distribution(files: Mapping[str, FileEntry]) -> list[dict[str, Any]]:
    shards = [
        {
            "@type": "cr:FileObject",
            "@id": name,
            "name": name,
            "contentUrl": name,
            "contentSize": f"{entry.size} B",
            "encodingFormat": _PARQUET,
            "sha256": entry.sha256,
        }
        for name, entry in sorted(files.items())
        if name.endswith(".parquet")
    ]
    shard_set = {
        "@type": "cr:FileSet",
        "@id": "shards",
        "name": "shards",
        "description": "All Parquet shards, one row per graph.",
        "encodingFormat": _PARQUET,
        "includes": "data/*.parquet",
    }
    return [*shards, shard_set]


def _splits(request: ExportRequest) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "name": "splits",
        "description": "Names of the splits.",
        "dataType": "cr:Split",
        "key": {"@id": "splits/name"},
        "field": [_inline("splits", "name", "sc:Text", "Name of the split.")],
        "data": [{"splits/name": name} for name in request.corpus.splits],
    }


def _environments(request: ExportRequest) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": "environments",
        "name": "environments",
        "description": "Environments of the training graphs.",
        "key": {"@id": "environments/id"},
        "field": [
            _inline("environments", "id", "sc:Integer", "The `env_id`."),
            _inline("environments", "name", "sc:Text", "Common property of its graphs."),
            _inline(
                "environments",
                "origin",
                "sc:Text",
                "`source`, or the method that generated its graphs.",
            ),
        ],
        "data": [
            {f"environments/{name}": row[name] for name in ("id", "name", "origin")}
            for row in request.corpus.environments
        ],
    }


def _inline(record: str, name: str, data_type: str, doc: str) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{record}/{name}",
        "name": name,
        "description": doc,
        "dataType": data_type,
    }


def _graphs(request: ExportRequest) -> dict[str, Any]:
    fields = [_field(column) for column in request.corpus.info.columns]
    for name in ("num_nodes", "num_edges"):
        doc = "nodes of the graph" if name == "num_nodes" else "edges as stored, both directions"
        fields.append(_field(Column(name=name, axis="graph", dtype="int32", doc=doc)))
    return {
        "@type": "cr:RecordSet",
        "@id": "graphs",
        "name": "graphs",
        "description": "One record per graph.",
        "key": {"@id": "graphs/graph_id"},
        "field": fields,
    }


def _field(column: Column) -> dict[str, Any]:
    text = column.dtype == "text" or bool(column.vocabulary)
    shape = ["-1"] if column.axis != "graph" else []
    shape += ["-1"] if column.ragged and column.dtype != "text" else []
    shape += [str(column.width)] if column.width is not None else []
    column_name, _, json_path = column.name.partition(".")
    source: dict[str, Any] = {"fileSet": {"@id": "shards"}, "extract": {"column": column_name}}
    if json_path:
        source["transform"] = {"jsonPath": json_path}
    return {
        "@type": "cr:Field",
        "@id": f"graphs/{column.name}",
        "name": column.name,
        "description": column.doc or column.name,
        "dataType": "sc:Text" if text else _TYPES[column.dtype.rstrip("0123456789")],
        "source": source,
        **({"isArray": True, "arrayShape": ",".join(shape)} if shape else {}),
    }


def _rai_fields(request: ExportRequest) -> dict[str, Any]:
    """Return the fields of the RAI vocabulary: data collection, limitations and use cases."""
    info = request.corpus.info
    raw = [
        f"{name} (SHA-256 {sha})"
        for manifest in request.lineage
        for name, sha in manifest.raw.items()
    ]
    collected = f"Raw files: {'; '.join(raw)}." if raw else "Generated by a program; no raw files."
    synthetic = (
        f"{request.num_augmented} graphs of the training split are synthetic (column `origin`)."
    )
    fields = {
        "dataCollection": f"{info.description or info.name} {collected}",
        "dataCollectionType": ["Secondary Data Analysis" if raw else "Software Collection"],
        "dataPreprocessingProtocol": [line.removeprefix("- ") for line in lineage_lines(request)],
        "dataManipulationProtocol": (
            f"Written by gsx {__version__}; every option, seed and input hash is in "
            f"`lineage/*.json`. {synthetic}"
        ),
        "dataAnnotationProtocol": [
            "Labels of source graphs are those of the raw data; the label of a synthetic graph "
            "is computed from the labels of its parents and `provenance`."
        ],
        "machineAnnotationTools": [f"gsx {__version__}"],
        "dataBiases": [
            f"Splits differ by design: the {info.domain} shifts between training and `ood` splits."
        ],
        "dataLimitations": limitations(request) or ["None known."],
        "dataUseCases": ["Training and evaluating graph classifiers under distribution shift."],
        "dataSocialImpact": "None known beyond that of the raw data.",
        "personalSensitiveInformation": [
            "None added; see licence and citation for the content of the raw data."
        ],
        "dataReleaseMaintenancePlan": (
            "A release never changes and is identified by its content digest; corrections are new "
            "releases."
        ),
    }
    return {f"rai:{name}": value for name, value in fields.items()}
