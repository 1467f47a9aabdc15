"""Settings that Kafka does not have."""

import pytest

from stratalog.metadata.settings.catalogue.own import OWN_SETTINGS

_ROWS = {row.name: row for row in OWN_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("stratalog.bucket.url", None),
        ("stratalog.request.elements.max", 10000),
        ("stratalog.request.tags.max", 64),
        ("stratalog.unauthenticated.request.bytes.max", 65536),
    ],
)
def test_defaults_are_those_of_the_design(name, default):
    """Limits of the protocol and of memory, as decided."""
    assert _ROWS[name].default == default


def test_all_begin_with_our_name_and_have_effect():
    """A setting of our own that does nothing would be a lie."""
    assert all(name.startswith("stratalog.") and row.has_effect for name, row in _ROWS.items())
