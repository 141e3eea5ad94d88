"""Names in data of users follow the rules for names of a corpus."""

import pytest

from tests.support.artifacts import gsx


@pytest.mark.parametrize(
    ("target", "domain", "code", "text"),
    [
        ("act\x07ive", "a", 2, "column `act\\x07ive` contains the control character U+0007"),
        ("active", "a\u202eb", 4, "group `a\\u202eb` contains the control character U+202E"),
        ("cafe\u0301", "a", 2, "column `cafe\\u0301` is not in Unicode normalization form C"),
    ],
)
def test_a_name_that_changes_its_surroundings_is_refused(tmp_path, target, domain, code, text):
    rows = [f"{'C' * (n % 5 + 1)},{n % 2},{domain if n % 3 else 'z'}" for n in range(12)]
    table = "\n".join([f"smiles,{target},group", *rows])
    (tmp_path / "own.csv").write_text(table + "\n", encoding="utf-8")
    result = gsx(
        "prepare", "--smiles", tmp_path / "own.csv", "--target", target, "--domain",
        "column:group", "--store", tmp_path / "store",
    )  # fmt: skip
    assert (result.code, result.out) == (code, ""), result
    assert text in result.err.replace("\\\\", "\\")
    assert not list((tmp_path / "store").glob("corpus/*"))
