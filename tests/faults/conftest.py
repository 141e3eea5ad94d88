"""Fixtures: small file systems in memory."""

import shutil
import subprocess

import pytest


def mount_tmpfs(folder, size):
    """Mount a file system in memory and return whether that is permitted."""
    if shutil.which("mount") is None:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def ram(tmp_path):
    """A file system in memory, and a function that changes its mount options."""
    folder = tmp_path / "ram"
    folder.mkdir()
    if not mount_tmpfs(folder, "200m"):
        pytest.skip("mounting a small disk in memory is not permitted here")

    def remount(options):
        subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)

    yield folder, remount
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def fast_folder(tmp_path):
    """A directory in memory if that is permitted, otherwise on disk: kill tests need no disk."""
    folder = tmp_path / "fast"
    folder.mkdir()
    mounted = mount_tmpfs(folder, "500m")
    yield folder
    if mounted:
        subprocess.run(["umount", "-l", folder], check=True)
