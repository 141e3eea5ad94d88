"""Peak memory in the run record."""

import subprocess
import sys

from gsx.storage.artifacts.run_record import peak_memory_mib


def test_peak_memory_grows_with_an_allocation_and_never_shrinks():
    before = peak_memory_mib()
    data = bytearray(b"x") * (256 << 20)
    during = peak_memory_mib()
    del data
    assert during > before
    assert during >= 256
    assert peak_memory_mib() > during - 8  # the kernel counts pages per processor, in batches


def test_a_child_does_not_inherit_the_peak_memory_of_its_parent():
    """On Linux ``ru_maxrss`` of ``getrusage`` survives ``exec``."""
    code = "from gsx.storage.artifacts.run_record import peak_memory_mib; print(peak_memory_mib())"
    data = bytearray(b"x") * (512 << 20)
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    del data
    assert float(child.stdout) < 400
