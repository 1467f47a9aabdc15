"""The events and requests of a transaction shard."""

from msgspec import structs

from stratalog.broker.coordinators.transactions import transaction_settings
from stratalog.broker.settings.config import load_config
from stratalog.metadata.coordination import Producer
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.transactions import events
from stratalog.metadata.transactions.events import AllocateProducerId, SendMarkers, TimedOut, TransactionSettings
from stratalog.metadata.transactions.shard import TransactionShard

ACTIONS = {SendMarkers, AllocateProducerId}


def test_the_defaults_are_those_of_the_settings(tmp_path):
    """A shard made by hand behaves as that of a broker that was configured with nothing."""
    config = load_config(assignments=[f"log.dirs={tmp_path}"], environment={})
    ours = structs.replace(transaction_settings(config, EMPTY_IMAGE), version=TransactionSettings().version)
    assert ours == TransactionSettings()


def test_every_event_is_taken():
    """The shard handles every event that is neither an action nor the settings."""
    shard = TransactionShard(TransactionSettings())
    for name in events.__all__:
        kind = getattr(events, name)
        if kind not in ACTIONS | {TransactionSettings}:
            assert kind in shard._steps, name


def test_a_time_out_has_no_request_to_answer():
    """So there is no answer when the producer id that it needs cannot be had."""
    assert TimedOut("x", Producer(1, 0)).token is None
    assert "TimedOut" not in events.__all__
