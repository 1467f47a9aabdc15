"""Encoding errors: they name the field, its value and why it does not fit."""

import pytest

from stratalog.wire.schema import EncodeError, Int16, Int32, Message, Records, Struct, Uuid, encode, field


class Item(Struct):
    number: Int16 = field()
    name: str = field()
    ids: list[Int32] = field()


class Order(Message, versions=(0, 1), flexible=1):
    items: list[Item] = field()
    note: str | None = field(nullable_since=1)
    uuid: Uuid = field()
    blob: bytes = field()
    data: Records | None = field()
    extra: Item | None = field(since=1, tag=0)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Order(items=None, note=""), "items is None"),
        (Order(), "note is None"),
        (Order(items=3, note=""), "items is 3, not a list"),
        (Order(items=["a"], note=""), r"items\[0\] is a str, not a Item"),
        (Order(items=[Item(), Item(number=None)], note=""), r"items\[1\].number is None"),
        (Order(items=[Item(number=40000)], note=""), r"items\[0\].number is 40000.*int16"),
        (Order(items=[Item(number="1")], note=""), r"items\[0\].number is '1'.*int16"),
        (Order(items=[Item(name=b"x")], note=""), r"items\[0\].name is b'x'.*string"),
        (Order(items=[Item(name="\ud800")], note=""), r"items\[0\].name.*string"),
        (Order(items=[Item(ids=[1, 2**31])], note=""), r"items\[0\].ids\[1\] is 2147483648.*int32"),
        (Order(note="x" * 40000), r"note is 'xxx.*\.\.\., which is not a value of type string"),
        (Order(note="", uuid=bytes(15)), "uuid is .*type uuid"),
        (Order(note="", uuid=None), "uuid is None"),
        (Order(note="", blob="text"), "blob is 'text'.*type bytes"),
        (Order(note="", blob=7), "blob is 7.*type bytes"),
        (Order(note="", data="text"), "data is 'text'.*type records"),
        (Order(note="", data=[b"a", None]), r"data is \[b'a', None\].*type records"),
    ],
)
def test_explained(order, message):
    """The error names the message, its version and the path of the first field at fault."""
    with pytest.raises(EncodeError, match=f"Order v0 cannot be encoded: {message}"):
        encode(order, 0)


def test_explained_tagged():
    """Fields inside a tagged struct are named as well."""
    with pytest.raises(EncodeError, match=r"Order v1 cannot be encoded: extra.number is 100000"):
        encode(Order(extra=Item(number=100000)), 1)


def test_not_explained():
    """A failure that no field explains shows what was raised."""

    class Moody(list):
        tries = 0

        def __iter__(self):
            Moody.tries += 1
            if Moody.tries == 1:
                raise ValueError("not today")
            return super().__iter__()

    with pytest.raises(EncodeError, match="not today"):
        encode(Order(note="", items=Moody([Item()])), 0)
