"""The code digest of a stage covers every module that the stage can reach."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from gsx.pipeline import code_digest as subject
from gsx.pipeline.code_digest import code_digest, import_closure
from gsx.pipeline.stage_order import STAGES

ROOT = Path(__file__).parents[3]
STAGE_MODULES = [stage.module for stage in STAGES]


def module_file(module):
    base = ROOT / "gsx" / Path(*module.split(".")[1:])
    return next((p for p in (base / "__init__.py", base.with_suffix(".py")) if p.is_file()), None)


def imports_by_syntax_tree(module):
    """Return the imported modules of a module; an oracle that parses the code."""
    names = set()
    for node in ast.walk(ast.parse(module_file(module).read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {n for n in names if n and n.split(".")[0] == "gsx" and module_file(n) is not None}


def closure_by_syntax_tree(module):
    reached, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(imports_by_syntax_tree(name))
    return reached


@pytest.mark.parametrize("module", STAGE_MODULES)
def test_the_closure_contains_every_import_that_a_parser_finds(module):
    assert closure_by_syntax_tree(module) <= set(import_closure([module]))


@pytest.mark.parametrize("module", STAGE_MODULES)
def test_changing_any_reachable_module_changes_the_digest(module, monkeypatch):
    reachable = closure_by_syntax_tree(module)
    read = subject._code
    contents = {name: read(name) for name in import_closure([module])}
    monkeypatch.setattr(subject, "_code", contents.__getitem__)
    before = code_digest([module])
    for name in reachable:
        original = contents[name]
        contents[name] = original + b"\n# changed\n"
        assert code_digest([module]) != before, name
        contents[name] = original
    assert code_digest([module]) == before


@pytest.mark.parametrize("module", STAGE_MODULES)
def test_every_module_that_importing_a_stage_loads_is_covered(module):
    code = f"import sys, {module}; print(*(m for m in sys.modules if m.split('.')[0] == 'gsx'))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name for name in result.stdout.split() if module_file(name) is not None}
    assert module in loaded
    assert loaded <= set(import_closure([module]))


def test_an_unrelated_module_does_not_change_the_digest(monkeypatch):
    before = code_digest(["gsx.stages.describe.stage"])
    read = subject._code
    monkeypatch.setattr(
        subject, "_code", lambda name: read(name) + b"#" * (name == "gsx.stages.train.stage")
    )
    assert code_digest(["gsx.stages.describe.stage"]) == before


def test_two_stages_have_two_digests():
    assert len({code_digest([module]) for module in STAGE_MODULES}) == len(STAGES)


def test_imports_in_parentheses_and_functions_are_found(monkeypatch):
    text = (
        b"from gsx.stages import (\n    prepare,  # a comment\n    train as t,\n)\n"
        b"def f():\n    from gsx.pipeline.plan import Step, Status\n    import gsx.ragged\n"
    )
    monkeypatch.setattr(subject, "_code", lambda _: text)
    assert subject.imported_modules("gsx.anything") == {
        "gsx",
        "gsx.stages",
        "gsx.stages.prepare",
        "gsx.stages.train",
        "gsx.pipeline",
        "gsx.pipeline.plan",
        "gsx.ragged",
    }


def test_the_closure_contains_the_package_of_a_module():
    assert "gsx.stages.convert" in import_closure(["gsx.stages.convert.stage"])
