"""Tests of hot/recovery/epoch_recovery.py."""

from pathlib import Path

import pytest

from stratalog.hot.state.leader_epochs import EpochEntry


@pytest.mark.parametrize("spoilt", ["base offset", "epoch"])
def test_impossible_headers_give_no_epochs(bench, spoilt):
    """Neither field is covered by a CRC: one beyond its segment, or its partition, tells nothing."""
    log = bench.open()
    for epoch in (1, 2, 3):
        bench.append(log, epoch=epoch)
        log.roll()
    log.close()
    Path(f"{bench.directory}/leader-epoch-checkpoint").unlink()
    path = Path(f"{bench.directory}/{1:020d}.log")
    data = bytearray(path.read_bytes())
    data[{"base offset": 0, "epoch": 12}[spoilt]] ^= 0x40
    path.write_bytes(data)
    log = bench.open(leader_epoch_max=9)
    assert log.leader_epochs.entries == (EpochEntry(1, 0), EpochEntry(3, 2))
