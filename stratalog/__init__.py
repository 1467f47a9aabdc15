"""stratalog: Kafka topics that never fill a disk.

The rooms are ``wire`` (bytes and values), ``hot`` (the local log), ``tier`` (the archive in a bucket),
``metadata`` (pure decisions), ``broker`` (the edge) and ``spark`` (reading the archive without a broker).
In a checkout the rooms lie at the top, and the folders here are symbolic links to them: edit ``hot/log/log.py``, not
``stratalog/hot/log/log.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    from stratalog.spark.frames.opened import OpenedArchive

__version__ = "0.1.0"

if Path(__file__).with_name("wire").is_file():
    raise ImportError(
        "the folders of stratalog/ are symbolic links, but this checkout has text files instead: "
        "run `git config core.symlinks true` and `git checkout -- stratalog`, on a file system that has links"
    )


def open(url: str | PathLike[str], **options: str | int | bool | None) -> OpenedArchive:  # noqa: A001 - read as ``stratalog.open``
    """The archive at ``url`` for a Python program, without Spark and without a broker; see ``docs/python.md``.

    ``options`` are those of the Spark source that say how to reach the bucket: ``s3_endpoint``, ``s3_region`` and so on.
    Raises `MissingPackage` where pyarrow or numpy is missing, and what `OpenedArchive` raises.
    """
    from stratalog.extras import naming_extra  # noqa: PLC0415 - keeps ``import stratalog`` quick

    with naming_extra("stratalog.open", "arrow"):
        from stratalog.spark.frames.opened import OpenedArchive  # noqa: PLC0415 - pyarrow, for those who read
    return OpenedArchive(url, options)
