"""Bucket URLs that can never work, refused before the broker starts: a scheme without a store, a package that is missing,
a name that no bucket can have, a path that cannot be a directory. Whether the store answers is not asked here.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from stratalog.tier.stores.fsspec_store import what_to_install

__all__ = ["bucket_url_fault"]

_KNOWN: Final = "write file:///path, s3://bucket/prefix, memory:, or a URL that fsspec knows"
_BUCKET_NAME: Final = re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""Amazon's rules for general purpose buckets; other services keep to them."""
_READ_ONLY: Final = ("http", "https")


def bucket_url_fault(url: str, *, read_only: bool) -> str:
    """Why nothing can be kept at ``url``, or, with ``read_only``, be read there; empty if nothing speaks against it.

    A directory that is missing is made, as the store would do when it is first written to.
    """
    scheme = url.partition(":")[0]
    if scheme == "memory":
        return ""
    if scheme == "s3":
        return _s3_fault(urlsplit(url).netloc)
    if scheme == "file":
        return _path_fault(Path(unquote(urlsplit(url).path)), read_only=read_only)
    if scheme in _READ_ONLY and not read_only:
        return f"{url} can only be read: {_KNOWN}"
    return _fsspec_fault(url, scheme)


def _s3_fault(bucket: str) -> str:
    if _BUCKET_NAME.fullmatch(bucket):
        return ""
    return (
        f"no S3 bucket can be named {bucket!r}: a name has 3 to 63 lower-case letters, digits, dots and hyphens, and "
        "begins and ends with a letter or digit"
    )


def _path_fault(path: Path, *, read_only: bool) -> str:
    try:
        if not read_only:
            path.mkdir(parents=True, exist_ok=True)
        elif path.exists() and not path.is_dir():
            return f"{path} is no directory"
    except OSError as error:
        return f"the directory {path} cannot be made: {error.strerror or error}"
    return ""


def _fsspec_fault(url: str, scheme: str) -> str:
    if find_spec("fsspec") is None:
        return f"{scheme}:// needs packages that are not installed: pip install '{what_to_install(url)}'"
    from fsspec.registry import known_implementations, registry  # noqa: PLC0415 - an optional dependency

    if scheme in registry:
        return ""
    known = known_implementations.get(scheme)
    if known is None:
        return f"no store is known for {scheme}://: {_KNOWN}"
    package = str(known["class"]).partition(".")[0]
    if find_spec(package) is None:
        return f"{scheme}:// needs the package {package}, which is not installed: pip install '{what_to_install(url)}'"
    return ""
