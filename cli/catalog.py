"""`gsx catalog`: write a static site of a store."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import click

from gsx.cli.options import json_option, quiet_option
from gsx.cli.output import echo, echo_error, format_bytes, print_json, progress_bar


@click.command(short_help="Write a static site of all artifacts of a store.")
@click.argument("store", required=False)
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="DIR",
    required=True,
    help="New or empty directory for the site.",
)
@click.option("--title", metavar="TEXT", help="Title of the site.  [default: address of STORE]")
@click.option(
    "--url",
    metavar="DIR|URL",
    help="Address of the store in the commands on the pages.  [default: STORE]",
)
@click.option(
    "--reports",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory with HTML files of `gsx report`; those of corpora in STORE are copied and "
    "linked.",
)
@click.option(
    "--signature",
    type=click.Path(path_type=Path),
    metavar="KEY.pub",
    help="Check signatures with this key.  [default: show them unchecked]",
)
@quiet_option
@json_option
def catalog(
    store: str | None,
    *,
    out: Path,
    title: str | None,
    url: str | None,
    reports: Path | None,
    signature: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write a self-contained site of all artifacts of STORE: a directory or URL.

    STORE defaults to GSX_STORE, else ./artifacts. The index page has search and filters. Every
    artifact has a page with its dataset card, key figures, recommendation, models and scores,
    lineage, commands that load it, checksums and signature. The site works from a directory and
    from any web server. Only manifests and descriptions are read, so files are not verified: run
    `gsx verify --all` for that.

    Exit code 3 if an artifact cannot be read or a signature is invalid; the site lists it.
    """
    from gsx.escape import redact_urls
    from gsx.pipeline.catalog.site import write_catalog
    from gsx.storage.artifacts.store import Store

    started = time.perf_counter()
    public_key = None
    if signature is not None:
        from gsx.storage.sharing.signing import read_public_key

        public_key = read_public_key(signature)
    with progress_bar("catalog", quiet=quiet or as_json, unit=" files") as progress:
        written = write_catalog(
            Store.at(store),
            out,
            title=title,
            address=None if url is None else redact_urls(url),
            reports=reports,
            public_key=public_key,
            progress=progress,
        )
    seconds = round(time.perf_counter() - started, 3)
    if as_json:
        document = dataclasses.asdict(written)
        print_json({**document, "path": str(written.path), "seconds": seconds})
    elif not quiet:
        count = sum(written.artifacts.values())
        pages = f"{count:,} {'artifact' if count == 1 else 'artifacts'}"
        echo(
            f"catalog   {pages:<16} {format_bytes(written.bytes):<10} built in {seconds:.1f} s",
            f"          {out / 'index.html'}",
        )
    for item in written.damaged:
        echo_error(f"DAMAGED  {item['what']}")
    if written.damaged:
        raise click.exceptions.Exit(3)
