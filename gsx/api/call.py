"""What all functions of the API do: check options, open a session, translate errors."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from gsx.api.progress import is_interactive, notify, progress_bar
from gsx.api.store import Store
from gsx.errors import StoreError, UsageError, describe_os_error, did_you_mean

if TYPE_CHECKING:
    from gsx.pipeline.commands.session import Session
    from gsx.storage.artifacts.store import Artifact
    from gsx.storage.artifacts.store import Store as ArtifactStore
    from gsx.storage.corpora.corpus import Corpus

_F = TypeVar("_F", bound=Callable[..., Any])
_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "True or False", str: "text"}
_WORKERS = ("workers", "scheduler", "memory_limit", "dashboard")


def public(options: type | None = None) -> Callable[[_F], _F]:
    """Make a function public: errors of the file system become gsx errors.

    ``options`` is the TypedDict of the keyword arguments. They are checked, and become part of the
    signature, so that editors and notebooks complete them.
    """

    def decorate(function: _F) -> _F:
        own = inspect.signature(function).parameters

        where = f"gsx.{function.__name__}"
        named = [name for name in own if name != "options"]

        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:  # noqa: ANN401
            given = {name: _plain(value) for name, value in given.items()}
            if options is not None:
                others = {name: value for name, value in given.items() if name not in named}
                checked = check_options(where, others, options, named)
                given = {name: given[name] for name in given if name in named} | checked
            try:
                return function(*args, **given)
            except OSError as error:
                if error.errno is None:
                    raise
                raise StoreError(describe_os_error(error)) from error

        if options is not None:
            call.__signature__ = _signature(function, options)  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


def _signature(function: Callable[..., Any], options: type) -> inspect.Signature:
    """Return the signature of a function with all options as keyword arguments."""
    signature = inspect.signature(function)
    named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    taken = {parameter.name for parameter in named}
    keyword = inspect.Parameter.KEYWORD_ONLY
    others = [
        inspect.Parameter(name, keyword, default=None, annotation=hint)
        for name, hint in get_type_hints(options).items()
        if name not in taken
    ]
    return signature.replace(parameters=[*named, *others])


def check_options(
    where: str, given: Mapping[str, object], options: type, others: list[str]
) -> dict[str, object]:
    """Return the options that are given; raise UsageError for an unknown one, or a wrong value.

    None stands for an option that is not given.
    """
    hints = get_type_hints(options)
    checked = {}
    for name, value in given.items():
        if name not in hints:
            known = [*hints, *others]
            raise UsageError(f"{where}: unknown option `{name}`. {did_you_mean(name, known)}")
        if value is None:
            continue
        check_choice(where, name, value, hints[name])
        check_type(where, name, value, hints[name])
        checked[name] = value
    return checked


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return a NumPy number as a Python number; other values as they are."""
    is_number = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    return value.item() if is_number else value


def check_type(where: str, name: str, value: object, hint: Any) -> None:  # noqa: ANN401
    """Raise UsageError if an option has a value of a wrong type, such as a word for a number."""
    parts = get_args(hint) or (hint,)
    plain = [part for part in parts if part in _TYPE_NAMES]
    if not plain or len(plain) < len([part for part in parts if part is not type(None)]):
        return  # also lists, paths or words
    allowed = tuple(plain) + ((int,) if float in plain else ())
    is_flag = isinstance(value, bool)
    if not isinstance(value, allowed) or (is_flag and bool not in plain):
        wanted = " or ".join(_TYPE_NAMES[part] for part in plain)
        raise UsageError(f"{where}: `{name}` must be {wanted}; got {value!r}")


def check_choice(where: str, name: str, value: object, hint: Any) -> None:  # noqa: ANN401
    """Raise UsageError if an option must be one of some words, and is not."""
    parts = [hint] if get_origin(hint) is Literal else list(get_args(hint))
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    others = [part for part in parts if get_origin(part) is not Literal and part is not type(None)]
    if value is None or not words or others or value in words:
        return
    guess = did_you_mean(str(value), words)
    raise UsageError(f"{where}: `{name}` has no value `{value}`. {guess}")


def rename_options(
    where: str, options: Mapping[str, Any], names: Mapping[str, str]
) -> dict[str, Any]:
    """Return options under the names that the engine uses; reject one that is given twice."""
    renamed: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for name, value in options.items():
        target = names.get(name, name)
        if target in renamed:
            raise UsageError(f"{where}: give `{origin[target]}` or `{name}`, not both")
        renamed[target], origin[target] = value, name
    return renamed


def as_tuple(value: object) -> object:
    """Return one name as a tuple, and several as a tuple; None stays None."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list | tuple | set) else value


def as_text(value: object) -> object:
    """Return a path as text; other values as they are."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def raw_folder(options: Mapping[str, Any]) -> str | None:
    """Return the directory of raw files: the option `raw`, else GSX_RAW_DATA."""
    raw = as_text(options.get("raw"))
    return str(raw) if raw is not None else os.environ.get("GSX_RAW_DATA") or None


def open_session(options: dict[str, Any], *inputs: object) -> Session:
    """Take the options of a session out of ``options`` and open it.

    The store of the first input that has one is the default.
    """
    from gsx.pipeline.commands.session import Session
    from gsx.pipeline.distributed.cluster_options import ClusterOptions

    cluster = {name: options.pop(name) for name in _WORKERS if name in options}
    cluster = {name: value for name, value in cluster.items() if value is not None}
    quiet = bool(options.pop("quiet", False))
    shown = show_progress(options.pop("progress", None), quiet=quiet)
    return Session(
        store=choose_store(options.pop("store", None), *inputs),
        force=bool(options.pop("force", False)),
        tag=options.pop("tag", None),
        cluster=ClusterOptions(**cluster),
        notify=(lambda _: None) if quiet else notify,
        open_progress=lambda name: progress_bar(name, shown=shown),
    )


def show_progress(progress: bool | None, *, quiet: bool) -> bool:  # noqa: FBT001
    """Return whether to show progress bars; by default in notebooks and terminals."""
    if quiet:
        return False
    return is_interactive() if progress is None else progress


def choose_store(store: object, *inputs: object) -> ArtifactStore:
    """Return the given store, else that of the first input that has one, else the default."""
    stores = (getattr(one, "store", None) for one in inputs)
    own = next((one for one in stores if one is not None), None)
    return Store(own if store is None else store).unwrap()  # type: ignore[arg-type]


def corpus_artifact(where: str, corpus: object, store: ArtifactStore) -> Artifact:
    """Return the artifact of a corpus, given as a Corpus, key, tag, path or URL."""
    from gsx.pipeline.commands.resolve_corpus import resolve_corpus

    return resolve_corpus(store, source_of(where, corpus))


def source_of(where: str, source: object) -> str | Artifact:
    """Return the name of a source, or the artifact of a Corpus."""
    from gsx.storage.artifacts.store import Artifact
    from gsx.storage.corpora.corpus import Corpus

    if isinstance(source, Corpus):
        return source.artifact
    if isinstance(source, str | Path | Artifact):
        return str(source) if isinstance(source, Path) else source
    raise UsageError(
        f"{where}: expected a Corpus, or the key, tag, path or URL of one; got "
        f"{type(source).__name__}"
    )


def as_corpus(artifact: Artifact, store: ArtifactStore) -> Corpus:
    """Return an artifact of a store as a Corpus."""
    from gsx.storage.corpora.corpus import Corpus

    return Corpus(artifact, store=store)
