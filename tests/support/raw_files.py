"""Small raw data files for tests that prepare datasets."""

import gzip
import struct
import zipfile

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


def write_zip(path, files, mode=None):
    """Write a zip file with the given members, and Unix file modes if ``mode`` is set."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            info = zipfile.ZipInfo(name)
            if mode is not None:
                info.external_attr = mode << 16
            archive.writestr(info, text, zipfile.ZIP_DEFLATED)
    return path


def write_folder(path, files):
    """Write text files into a folder and return it."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def tu_path_graphs(sizes):
    """Return TU files with path graphs of the given sizes and alternating classes."""
    start = np.cumsum([0, *sizes])
    pairs = [(a, a + 1) for s, n in zip(start, sizes, strict=False) for a in range(s + 1, s + n)]
    lines = "".join(f"{a},{b}\n{b},{a}\n" for a, b in pairs)
    return {
        "P/P_A.txt": lines,
        "P/P_graph_indicator.txt": "".join(f"{g + 1}\n" * n for g, n in enumerate(sizes)),
        "P/P_graph_labels.txt": "".join(f"{g % 2}\n" for g in range(len(sizes))),
        "P/P_node_labels.txt": "".join(f"{k % 3}\n" for k in range(sum(sizes))),
    }
