"""``stratalog spark-zip``: this package as a zip, for executors that do not have it installed."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

import stratalog
from stratalog.wire.errors import Invalid

__all__ = ["EXAMPLES", "spark_zip", "write_zip"]

EXAMPLES: Final = """
stratalog spark-zip stratalog.zip
spark-submit --py-files stratalog.zip job.py
"""
_PACKAGES: Final = ("stratalog", "pyspark_stratalog")
_LEFT_OUT: Final = "__pycache__"
_DATE: Final = (1980, 1, 1, 0, 0, 0)
"""The same files make the same zip."""


@click.command("spark-zip")
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
def spark_zip(*, path: Path) -> None:
    """Write this stratalog to the zip PATH, for spark-submit --py-files or SparkContext.addPyFile.

    Executors then need pyarrow, numpy and the other packages that stratalog stands on, but not stratalog itself.
    In the program call stratalog.spark.register(spark) once: PySpark does not look for formats in zips.
    """
    count = write_zip(path)
    click.echo(f"{path}: {count} files, {path.stat().st_size:,} bytes")


def write_zip(path: Path) -> int:
    """Write the packages that are running here to ``path``, and return the number of files.

    A checkout's links are followed. The zip is complete or not there. Raises `Invalid` if stratalog itself runs out of a
    zip.
    """
    root = Path(stratalog.__path__[0]).parent
    if not root.is_dir():
        raise Invalid(f"stratalog runs out of {root}: copy that file")
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    names = list(_files(root))
    try:
        with zipfile.ZipFile(staged, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                entry = zipfile.ZipInfo(name, _DATE)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, (root / name).read_bytes(), zipfile.ZIP_DEFLATED)
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
    return len(names)


def _files(root: Path) -> Iterator[str]:
    for package in _PACKAGES:
        for folder, folders, names in os.walk(root / package, followlinks=True):
            folders[:] = sorted(set(folders) - {_LEFT_OUT})
            for name in sorted(names):
                yield (Path(folder) / name).relative_to(root).as_posix()
