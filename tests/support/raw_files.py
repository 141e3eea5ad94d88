"""Small raw data files for tests that prepare datasets."""

import gzip
import struct

import numpy as np

from gsx.seeds import rng


def write_alcohols_csv(folder):
    """Write a table of forty alcohols with 2 to 41 heavy atoms and a binary target `active`."""
    path = folder / "alcohols.csv"
    rows = "".join(f"{'C' * (n + 1)}O,{n % 2}\n" for n in range(40))
    path.write_text(f"smiles,active\n{rows}")
    return path


def idx_bytes(array):
    """Encode an array of bytes in the IDX format of MNIST."""
    header = b"\x00\x00\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_mnist(folder, count=60, **files):
    """Write MNIST files with squares of random size and position instead of digits.

    ``files`` replace the content of files, such as ``images-idx3``. Returns ``folder``.
    """
    generator = rng(0, "tests", "images")
    (folder / "mnist").mkdir(parents=True, exist_ok=True)
    for split, number in (("train", count), ("t10k", count // 3)):
        images = np.zeros((number, 28, 28))
        for image in images:
            top, left, size = generator.integers(4, 12, 3)
            image[top : top + size, left : left + size] = generator.integers(100, 256)
        contents = {
            "images-idx3": idx_bytes(images),
            "labels-idx1": idx_bytes(np.arange(number) % 10),
        }
        for kind, data in {**contents, **files}.items():
            name = f"{split}-{kind}-ubyte.gz"
            (folder / "mnist" / name).write_bytes(gzip.compress(data, mtime=0))
    return folder
