"""What a transaction shard is told, and what it asks for."""

import dataclasses

from stratalog.broker.config import load_config
from stratalog.broker.coordinators.transactions import transaction_settings
from stratalog.metadata.coordination import Producer
from stratalog.metadata.image import EMPTY_IMAGE
from stratalog.metadata.transactions import events
from stratalog.metadata.transactions.events import AllocateProducerId, SendMarkers, TimedOut, TransactionSettings
from stratalog.metadata.transactions.shard import TransactionShard

ACTIONS = {SendMarkers, AllocateProducerId}


def test_the_defaults_are_those_of_the_settings(tmp_path):
    """A shard made by hand behaves as that of a broker that was configured with nothing."""
    config = load_config(assignments=[f"log.dirs={tmp_path}"], environment={})
    ours = dataclasses.replace(transaction_settings(config, EMPTY_IMAGE), version=TransactionSettings().version)
    assert ours == TransactionSettings()


def test_every_event_is_taken():
    """What is neither an action nor the settings, the shard knows what to do with."""
    shard = TransactionShard(TransactionSettings())
    for name in events.__all__:
        kind = getattr(events, name)
        if kind not in ACTIONS | {TransactionSettings}:
            assert kind in shard._steps, name


def test_a_time_out_is_nobodys_request():
    """So nobody is told when the producer id that it needs cannot be had."""
    assert TimedOut("x", Producer(1, 0)).token is None
    assert "TimedOut" not in events.__all__
