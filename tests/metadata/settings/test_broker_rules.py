"""Settings of one broker that must agree with each other."""

import pytest

from stratalog.metadata.settings.broker_rules import broker_problems
from stratalog.metadata.settings.resolution import resolve_broker_config


def _problems(given):
    return broker_problems({name: entry.value for name, entry in resolve_broker_config(given).items()})


def test_the_defaults_agree():
    """A broker without a file starts."""
    assert _problems({}) == []


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ({"log.retention.minutes": "0"}, "log.retention.minutes must be unlimited (-1) or, greater than or equal to 1"),
        (
            {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"},
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
        (
            {"log.retention.ms": "10", "log.local.retention.ms": "11"},
            (
                "Invalid value 11 for configuration log.local.retention.ms: Value must not be more than log.retention.ms "
                "property value: 10"
            ),
        ),
        (
            {"log.retention.minutes": "1", "log.local.retention.ms": "60001"},
            (
                "Invalid value 60001 for configuration log.local.retention.ms: Value must not be more than "
                "log.retention.ms property value: 60000"
            ),
        ),
        (
            {"log.local.retention.ms": "10", "log.remote.copy.lag.ms": "11"},
            (
                "Invalid value 11 for configuration log.remote.copy.lag.ms: Value must not exceed log.local.retention.ms "
                "(effective value: 10): what is not uploaded yet cannot leave the local disk. Lower "
                "log.remote.copy.lag.ms, or raise log.local.retention.ms"
            ),
        ),
        (
            {"log.retention.bytes": "5", "log.remote.copy.lag.bytes": "6"},
            (
                "Invalid value 6 for configuration log.remote.copy.lag.bytes: Value must not exceed "
                "log.local.retention.bytes (effective value: 5): what is not uploaded yet cannot leave the local disk. "
                "Lower log.remote.copy.lag.bytes, or raise log.local.retention.bytes"
            ),
        ),
        (
            {"replica.fetch.wait.max.ms": "30001"},
            (
                "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent "
                "frequent changes in ISR"
            ),
        ),
        (
            {"group.consumer.session.timeout.ms": "70000"},
            "group.consumer.max.session.timeout.ms must be greater than or equal to group.consumer.session.timeout.ms",
        ),
        (
            {"group.min.session.timeout.ms": "1800001"},
            "group.max.session.timeout.ms must be greater than or equal to group.min.session.timeout.ms",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_named(given, sentence):
    """Each rule gives Kafka's sentence, and only the rule that is broken speaks."""
    assert _problems(given) == [sentence]


def test_local_retention_is_free_where_nothing_is_tiered():
    """Without the tier the rule does not hold."""
    given = {"log.retention.ms": "10", "log.local.retention.ms": "11", "remote.log.storage.system.enable": "false"}
    assert _problems(given) == []


@pytest.mark.parametrize("lag", ["-1", "0", "604800000"])
def test_a_copy_lag_within_local_retention_is_well(lag):
    """So is one that is unlimited with it, and any where nothing is tiered."""
    assert _problems({"log.remote.copy.lag.ms": lag}) == []
    assert _problems({"log.retention.ms": "-1", "log.remote.copy.lag.ms": str(1 << 62)}) == []
    given = {"log.retention.ms": "10", "log.remote.copy.lag.ms": "11", "remote.log.storage.system.enable": "false"}
    assert _problems(given) == []


def test_all_problems_are_reported_at_once():
    """Otherwise a file would be fixed one line a start."""
    assert len(_problems({"log.roll.ms": "0", "log.retention.ms": "0"})) == 2


def test_no_address_at_all_is_a_lock_without_a_key():
    """A change that keeps every client out could be taken back by none of them."""
    name = "max.connections.per.ip"
    (problem,) = _problems({name: "0"})
    assert problem == f"{name} can be set to zero only if {name}.overrides property is set."
    assert _problems({name: "0", f"{name}.overrides": "127.0.0.1:10"}) == []
