"""Broker settings of SASL and tokens."""

import pytest

from stratalog.metadata.settings.catalogue.sasl import SASL_SETTINGS, TOKEN_SETTINGS

_ROWS = {row.name: row for row in (*SASL_SETTINGS, *TOKEN_SETTINGS)}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("sasl.enabled.mechanisms", ("GSSAPI",)),
        ("sasl.server.max.receive.size", 524288),
        ("sasl.login.refresh.buffer.seconds", 300),
        ("sasl.kerberos.ticket.renew.window.factor", 0.8),
        ("connections.max.reauth.ms", 0),
        ("delegation.token.expiry.time.ms", 86400000),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default


def test_logins_and_keys_are_secret():
    """JAAS text and the signing key are never shown."""
    assert {name for name, row in _ROWS.items() if row.is_sensitive} == {
        "sasl.jaas.config",
        "delegation.token.secret.key",
    }
