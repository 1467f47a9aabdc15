"""``HOST:PORT`` in every legal form, and the words for the others."""

import pytest

from stratalog.wire.address import AddressError, parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("[::1]:0", ("::1", 0)),
        (":80", ("", 80)),
        (" localhost:1 ", ("localhost", 1)),
    ],
)
def test_an_address_is_host_and_port(text: str, expected: tuple[str, int]) -> None:
    """IPv6 stands in brackets; the host may be empty."""
    assert parse_address(text, "--http") == expected


@pytest.mark.parametrize("text", ["", "9092", "localhost", "localhost:", "localhost:65536", "::1:9092", "a b:1"])
def test_other_addresses_are_refused(text: str) -> None:
    """The message names the flag and gives an example."""
    with pytest.raises(AddressError, match=r"--http: .* is not HOST:PORT"):
        parse_address(text, "--http")
