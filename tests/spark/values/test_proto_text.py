"""Protobuf schemas as text."""

from __future__ import annotations

import base64
import importlib.util
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st

from stratalog.spark.values import proto_text as module
from stratalog.spark.values.proto_text import compile_file, compile_text, proto_text
from stratalog.wire.errors import Invalid

PLACE = 'syntax = "proto3"; package shop; message Place { string city = 1; }'
OLD = """
syntax = "proto2";
import "shop/place.proto";
message Order { required shop.Place place = 1; optional int32 n = 2 [default = 7]; }
"""


def names(data: bytes) -> list[str]:
    return [file.name for file in FileDescriptorSet.FromString(data).file]


@pytest.mark.story
def test_a_schema_comes_behind_what_it_imports() -> None:
    """Under a name that none of those has."""
    assert names(compile_text(PLACE)) == ["schema.proto"]
    found = FileDescriptorSet.FromString(compile_text(OLD, (("shop/place.proto", PLACE),)))
    assert [file.name for file in found.file] == ["shop/place.proto", "schema.proto"]
    assert found.file[-1].message_type[0].field[1].default_value == "7"
    taken = OLD.replace("shop/place.proto", "schema.proto")
    assert names(compile_text(taken, (("schema.proto", PLACE),))) == ["schema.proto", "_schema.proto"]


def test_protobufs_own_files_are_there() -> None:
    """They are not registered."""
    text = 'syntax = "proto3"; import "google/protobuf/struct.proto"; message M { google.protobuf.Struct s = 1; }'
    assert names(compile_text(text)) == ["google/protobuf/struct.proto", "schema.proto"]


def test_an_error_is_reported_with_its_line() -> None:
    """As protoc says it."""
    with pytest.raises(Invalid, match=r'does not compile: schema\.proto:3:\d+: "Nothing" is not defined'):
        compile_text('syntax = "proto3";\nmessage M {\n  Nothing n = 1; }')
    with pytest.raises(Invalid, match=r"does not compile: shop/place\.proto: File not found"):
        compile_text(OLD)
    for name in ("../place.proto", "/etc/place.proto", "."):
        with pytest.raises(Invalid, match="no name of a file below another"):
            compile_text(OLD, ((name, PLACE),))


def test_imports_of_a_file_are_found_above_it(tmp_path: Path) -> None:
    """Where the root of a tree of files is, only they know; links are followed first."""
    (tmp_path / "tree" / "shop").mkdir(parents=True)
    (tmp_path / "tree" / "shop" / "place.proto").write_text(PLACE)
    file = tmp_path / "tree" / "shop" / "order.proto"
    file.write_text(OLD)
    assert names(compile_file(file))[0] == "shop/place.proto"
    (tmp_path / "link.proto").symlink_to(file)
    assert names(compile_file(tmp_path / "link.proto"))[0] == "shop/place.proto"
    (tmp_path / "--help").write_text(PLACE)
    assert len(names(compile_file(tmp_path / "--help"))) == 1


@given(st.binary(max_size=30), st.integers(1, 1 << 20))
def test_a_descriptor_set_is_no_text(more: bytes, number: int) -> None:
    """A descriptor set, with random bytes behind it, is not taken for text, nor is its base64."""
    file = FileDescriptorProto(name="a{.proto")
    file.message_type.add(name="M").field.add(name="f", number=number)
    data = FileDescriptorSet(file=[file]).SerializeToString() + more
    assert proto_text(data) is None
    assert proto_text(base64.b64encode(data)) is None


def test_text_may_begin_with_a_mark() -> None:
    """As some editors write it."""
    assert proto_text(b"\xef\xbb\xbf" + PLACE.encode()) == PLACE
    assert proto_text(b"\xff{") is None


def test_the_error_without_protoc_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptor sets go on without it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'stratalog\[values\]'"):
        compile_text(PLACE + " ")


def test_a_compiler_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a time, with a word."""

    def hang(*_: Any, **named: Any) -> None:
        raise subprocess.TimeoutExpired("protoc", named["timeout"])

    monkeypatch.setattr(module.subprocess, "run", hang)
    with pytest.raises(Invalid, match="not compiled the Protobuf schema within 60 s"):
        compile_text(PLACE + "  ")
