"""Transactional ids that nothing uses any more, in a shard that has very many."""

from stratalog.metadata.transactions import shard


def test_very_many_ids_expire_in_steps(desk, monkeypatch):
    """A busy hour ends a week later: each step takes little of the event loop, and the next follows at once."""
    monkeypatch.setattr(shard, "_EXPIRED_AT_ONCE", 2)
    table = desk(id_expiration_ms=1_000, remove_expired_interval_ms=100)
    for number in range(5):
        table.start(f"id-{number}")
    table.commit()
    table.wait(1_000)
    left = [len(table.shard.transactions)]
    while table.shard.transactions:
        assert table.shard.deadline() <= table.now.monotonic_ms
        table.wait(0)
        left.append(len(table.shard.transactions))
    assert left == [3, 1, 0]
    table.commit()
    table.reload()
    assert not table.shard.transactions
