"""Very many transactional ids of a shard that nothing uses any more, or whose transactions are late."""

from stratalog.metadata.transactions import shard


def test_very_many_ids_expire_in_steps(desk, monkeypatch):
    """A busy hour ends a week later: each step takes little of the event loop, and the next follows at once."""
    monkeypatch.setattr(shard, "_LATE_AT_ONCE", 2)
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


def test_very_many_late_transactions_are_aborted_in_steps(desk, monkeypatch):
    """All producers of a machine end at once, and all are late at once."""
    monkeypatch.setattr(shard, "_LATE_AT_ONCE", 2)
    table = desk(abort_timed_out_interval_ms=100)
    names = [f"id-{number}" for number in range(5)]
    for name in names:
        table.add(table.start(name), "0", token=f"add {name}", tid=name)
    table.commit()
    table.wait(60_000)
    left = [sum(table.status(name) == "Ongoing" for name in names)]
    while left[-1]:
        assert table.shard.deadline() <= table.now.monotonic_ms
        table.wait(0)
        left.append(sum(table.status(name) == "Ongoing" for name in names))
    assert left == [3, 1, 0]
