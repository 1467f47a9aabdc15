"""Principals inside of Envelope requests."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.default_principal_data.v0.data import DefaultPrincipalData as KioPrincipal
from kio.serial import entity_writer

from stratalog.wire.records.principal import DefaultPrincipalData, decode_principal, encode_principal
from stratalog.wire.schema import DecodeError


def test_a_principal_in_bytes():
    """Its version, its two parts, and whether a token was its proof."""
    principal = DefaultPrincipalData(type="User", name="a", token_authenticated=True)
    assert encode_principal(principal).hex() == "0000" + "0555736572" + "0261" + "01" + "00"


@given(st.text(max_size=5), st.text(max_size=200), st.booleans())
def test_principals_are_those_of_kio(kind, name, token):
    """The other codec writes the same bytes; they are read back."""
    out = io.BytesIO()
    entity_writer(KioPrincipal)(out, KioPrincipal(type_=kind, name=name, token_authenticated=token))
    data = b"\0\0" + out.getvalue()
    principal = DefaultPrincipalData(type=kind, name=name, token_authenticated=token)
    assert encode_principal(principal) == data
    assert decode_principal(memoryview(data)) == principal


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1\1\1\0\0", b"\xff\xff\1\1\0\0", b"\0\0\1\1"])
def test_a_principal_that_cannot_be_read(data):
    """Too few bytes, or a version that is not known."""
    with pytest.raises(DecodeError):
        decode_principal(data)
