"""Broker settings of TLS."""

import pytest

from stratalog.metadata.settings.catalogue.tls import TLS_SETTINGS

_ROWS = {row.name: row for row in TLS_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("ssl.client.auth", "none"),
        ("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3")),
        ("ssl.protocol", "TLSv1.3"),
        ("ssl.keystore.type", "JKS"),
        ("ssl.endpoint.identification.algorithm", "https"),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default


def test_keys_and_passwords_are_secret():
    """Everything that gives access is of the type that is never shown."""
    assert {name for name, row in _ROWS.items() if row.is_sensitive} == {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.certificates",
        "ssl.truststore.password",
    }
