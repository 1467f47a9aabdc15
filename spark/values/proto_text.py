"""Protobuf schemas as text, ``.proto``, compiled to file descriptor sets by protoc, which the package grpcio-tools brings.

It runs as a process of its own, since it writes its errors to the process's stderr. Only who has a schema as text needs
it: on the driver, or in executors too where a schema registry knows its schemas as text alone.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from stratalog.extras import MissingPackage
from stratalog.wire.errors import Invalid

__all__ = ["compile_file", "compile_text", "proto_text"]

_TIMEOUT_SECONDS: Final = 60.0
_FOLDERS_MAX: Final = 16
_MAIN: Final = "schema.proto"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
"""In every descriptor set there is one: the tag of a field's number is 0x18."""


def proto_text(data: bytes) -> str | None:
    """``data`` as text, if it is a schema in Protobuf's language; None for a descriptor set, in base64 or not."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return text if "{" in text and not _CONTROL.search(text) else None


@lru_cache(maxsize=256)
def compile_text(text: str, imports: tuple[tuple[str, str], ...] = ()) -> bytes:
    """The descriptor set of a schema, which may import those of ``imports``, names and texts, and Protobuf's own.

    The schema's own file comes last. Raises `Invalid` with what protoc says, and `MissingPackage`.
    """
    files = dict(imports)
    main = _MAIN
    while main in files:
        main = f"_{main}"
    with TemporaryDirectory(prefix="stratalog-proto-") as folder:
        for name, content in (*files.items(), (main, text)):
            path = Path(folder, _checked(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return _compile(main, [folder])


def compile_file(path: Path) -> bytes:
    """The descriptor set of a file; what it imports is looked for in its folder, and in those above.

    Raises what `compile_text` raises.
    """
    whole = path.resolve()
    return _compile(str(whole), [str(each) for each in (whole.parent, *whole.parent.parents)][:_FOLDERS_MAX])


def _checked(name: str) -> str:
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts:
        raise Invalid(f"the Protobuf schema refers to '{name}', which is no name of a file below another")
    return name


def _compile(main: str, folders: Sequence[str]) -> bytes:
    if importlib.util.find_spec("grpc_tools") is None:
        message = "Protobuf schemas as text need grpcio-tools: pip install 'stratalog[values]'"
        raise MissingPackage(message, name="grpc_tools")
    with TemporaryDirectory(prefix="stratalog-proto-") as target:
        out = Path(target, "set")
        search = [f"--proto_path={folder}" for folder in folders]
        command = [
            sys.executable,
            "-P",
            "-m",
            "grpc_tools.protoc",
            *search,
            "--include_imports",
            f"--descriptor_set_out={out}",
        ]
        try:
            done = subprocess.run(  # noqa: S603 - no shell, and a name that cannot be an option
                [*command, main],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Invalid(f"protoc has not compiled the Protobuf schema within {_TIMEOUT_SECONDS:.0f} s") from error
        if done.returncode:
            reason = (done.stderr.strip() or done.stdout.strip()).replace(f"{folders[0]}/", "")
            raise Invalid(f"the Protobuf schema does not compile: {reason}")
        return out.read_bytes()
