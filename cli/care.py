"""Commands that look after a store: verify, gc."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import plain, plain_lines, print_json, readable_bytes, table

if TYPE_CHECKING:
    from gsx.storage.artifacts.location import Place
    from gsx.storage.corpora.verify_corpus import Audit


@click.command(short_help="Check every file and every graph.")
@click.argument("artifacts", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Verify every artifact of the store.")
@click.option(
    "--signature",
    type=click.Path(path_type=Path),
    metavar="KEY.pub",
    help="Also refuse what this key did not sign.",
)
@store_option
@json_option
def verify(
    artifacts: tuple[str, ...],
    *,
    everything: bool,
    signature: Path | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Check ARTIFACTS: every file's hash, and every graph of a corpus.

    Exit code 3 when anything is wrong.
    """
    from gsx.errors import UsageError
    from gsx.storage.artifacts.store import Store
    from gsx.storage.corpora.verify_corpus import audit

    place = Store.at(store)
    if everything == bool(artifacts):
        raise UsageError("name artifacts to verify, or say `--all`.")
    places = place.all_places() if everything else [place.locate(name) for name in artifacts]
    results = [audit(found, store=place) for found in places]
    if signature is not None:
        results = _signed(results, places, signature)
    sound = all(not result.problems for result in results)
    if as_json:
        print_json({"ok": sound, "artifacts": [dataclasses.asdict(r) for r in results]})
    else:
        for result in results:
            state = _state(result)
            click.echo(f"{state:<8} {result.path}  {result.files} files, {result.graphs:,} graphs")
            for problem in result.problems:
                what = plain_lines(problem.what).replace("\n", "\n         ")
                click.echo(f"         {plain(problem.path)} {what}")
    if not sound:
        raise click.exceptions.Exit(3)


def _state(result: Audit) -> str:
    """Return one word; what is whole but not signed as asked for is not called damaged."""
    from gsx.storage.artifacts.manifest import SIGNATURE

    if not result.problems:
        return "ok"
    return "REFUSED" if all(p.path == SIGNATURE for p in result.problems) else "DAMAGED"


def _signed(results: list[Audit], places: list[Place], public: Path) -> list[Audit]:
    """Add what is wrong with signatures to what was found."""
    from gsx.errors import ArtifactError
    from gsx.storage.artifacts.manifest import SIGNATURE
    from gsx.storage.artifacts.verify_files import Problem
    from gsx.storage.sharing.signing import read_public_key, require_signature

    key = read_public_key(public)
    found = []
    for result, place in zip(results, places, strict=True):
        problems = result.problems
        try:
            require_signature(place, key)
        except ArtifactError as error:
            problems = (*problems, Problem(SIGNATURE, str(error)))
        found.append(dataclasses.replace(result, problems=problems))
    return found


@click.command(short_help="List or remove what nobody needs.")
@click.argument("artifacts", nargs=-1)
@click.option("--delete", is_flag=True, help="Remove what is listed; without it nothing is.")
@click.option("--with-descendants", is_flag=True, help="Also what was made from ARTIFACTS.")
@store_option
@json_option
def gc(
    artifacts: tuple[str, ...],
    *,
    delete: bool,
    with_descendants: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """List what can go: abandoned drafts, superseded generations, orphan caches.

    With ARTIFACTS, those instead. Nothing is removed without --delete.
    """
    from gsx.storage.artifacts.store import Store
    from gsx.storage.gc import find_garbage, list_artifacts, remove_artifacts, remove_garbage

    place = Store.at(store)
    if artifacts:
        chosen = list_artifacts(place, artifacts, with_descendants=with_descendants)
        found = [item for item, _ in chosen]
        if delete:
            remove_artifacts(place, [artifact for _, artifact in chosen])
    else:
        found = list(find_garbage(place))
        if delete:
            found = [item for item in found if remove_garbage(place, item)]
    freed = sum(item.bytes for item in found)
    if as_json:
        rows = [dataclasses.asdict(item) for item in found]
        print_json({"removed": delete, "bytes": freed, "items": rows})
        return
    if found:
        rows_ = [(item.what, readable_bytes(item.bytes), item.path) for item in found]
        click.echo(table(rows_, ("WHAT", "SIZE", "PATH")))
    verb = "removed" if delete else "can be removed; add --delete to do it"
    click.echo(f"{len(found)} items, {readable_bytes(freed)} {verb}")
