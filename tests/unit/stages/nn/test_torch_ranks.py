"""Ranks of one machine exchange addresses in a directory that only their user can access."""

import pytest

from gsx.errors import StageError
from gsx.stages.nn.torch_ranks import _require_private


def test_only_a_private_directory_is_accepted(tmp_path):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    _require_private(private)
    (tmp_path / "link").symlink_to(private)
    (tmp_path / "file").touch(mode=0o600)
    for name in ("link", "file", "missing"):
        with pytest.raises(StageError, match="not a private directory"):
            _require_private(tmp_path / name)
    private.chmod(0o770)
    with pytest.raises(StageError, match="not a private directory"):
        _require_private(private)
