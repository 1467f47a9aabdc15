"""Field declarations: what an annotation and a field() together mean."""

import pytest

from stratalog.wire.schema import Int32, Records, Struct, Uuid, field
from stratalog.wire.schema_fields import Declared, ListOf, Nested, field_spec


class Point(Struct):
    x: Int32
    y: Int32 = field(7)


def spec(annotation, declared=None):
    return field_spec("Owner", "name", annotation, declared, Struct)


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (Int32, 0),
        (str, ""),
        (bytes, b""),
        (Uuid, bytes(16)),
        (list[Int32], []),
        (str | None, None),
        (list[str] | None, None),
        (Records | None, None),
        (Point | None, None),
        (Point, Point),
    ],
)
def test_implicit_default(annotation, default):
    """Without a default a field has the zero value of its type, or null where that is allowed."""
    assert spec(annotation, field()).default == default


def test_kinds():
    """Annotations become scalars, lists and nested structs."""
    assert spec(Int32).type.name == "int32"
    assert spec(str).type.name == "string"
    assert spec(bytes | None).type.name == "bytes"
    assert spec(Records | None).type.name == "records"
    assert spec(Point).type == Nested(Point)
    assert spec(list[Point]).type == ListOf(Nested(Point))
    assert spec(list[Uuid] | None).type.element.name == "uuid"


@pytest.mark.parametrize("annotation", [int, float, dict[str, str], list[int], tuple, str | bytes])
def test_unknown_type(annotation):
    """A type that does not exist on the wire is refused when the class is declared."""
    with pytest.raises(TypeError, match=r"Owner\.name"):
        spec(annotation)


def test_required():
    """Only a field without field() must be given."""
    assert spec(Int32).required
    assert not spec(Int32, field()).required


def test_presence():
    """A field is there from its first to its last version."""
    some = spec(Int32, field(since=2, until=4))
    assert [some.present(version) for version in range(1, 6)] == [False, True, True, True, False]


def test_nullable():
    """X | None may be null in all versions or in a range of them; X never."""
    assert spec(str | None).nullable(0)
    assert not spec(str, field()).nullable(3)
    some = spec(str | None, field(nullable_since=2, nullable_until=3))
    assert [some.nullable(version) for version in range(1, 5)] == [False, True, True, False]


def test_tagged():
    """A tag counts from the version the field appears in, or from a later one."""
    assert field(since=3, tag=1) == Declared(default=field().default, since=3, tag=1, tagged_since=3)
    some = spec(Int32, field(since=1, tag=0, tagged_since=2))
    assert [some.tagged(version) for version in range(4)] == [False, False, True, True]
    assert not spec(Int32, field()).tagged(9)


def test_tagged_struct():
    """A tagged struct is None when it is not sent, which is not null on the wire."""
    some = spec(Point | None, field(tag=0))
    assert some.default is None
    assert not some.nullable(0)
    with pytest.raises(TypeError, match="not sent"):
        spec(Point, field(tag=0))
    with pytest.raises(TypeError, match="default"):
        spec(Point | None, field(Point(x=1), tag=0))
