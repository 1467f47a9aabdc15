"""Broker settings of OAuth."""

import pytest

from stratalog.metadata.settings.catalogue.oauth import OAUTH_SETTINGS

_ROWS = {row.name: row for row in OAUTH_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("sasl.oauthbearer.assertion.algorithm", "RS256"),
        ("sasl.oauthbearer.clock.skew.seconds", 30),
        ("sasl.oauthbearer.scope.claim.name", "scope"),
        ("sasl.oauthbearer.assertion.claim.exp.seconds", 300),
        ("sasl.login.retry.backoff.max.ms", 10000),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default


def test_secrets_of_the_client_are_secret():
    """Passphrase and client secret are never shown."""
    assert {name for name, row in _ROWS.items() if row.is_sensitive} == {
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret",
    }
