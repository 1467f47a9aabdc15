"""``python -m bench.chaos --seed 1 --seconds 600``: kill nodes of a cluster at random under clients; exit code 1 for a fault.

Three nodes, each broker and controller. Every few seconds one is killed (SIGKILL) or stopped (SIGTERM), and started again
a little later. Two administrators create, change and delete topics meanwhile, and a writer appends with acks=all. In the
end everything is up, and changes that were answered have to be there, those that were refused must not be, acknowledged records
are at their offsets, ids are unique, all nodes tell the same, and their metadata logs are equal below the high watermark.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

from bench.chaos.admins import LOAD_TOPIC, Admin, Writer
from bench.chaos.outcomes import Ledger
from bench.chaos.verdict import log_faults, records_faults, topic_faults, until_equal
from bench.local_nodes import LocalNodes
from bench.settings import Settings, real_disk
from stratalog.client.admin import create_topic
from stratalog.client.client import Client

_ADMINS: Final = 2
_LOAD_PARTITIONS: Final = 6
_STOPPED: Final = 0.25
"""The part of ends that are in order."""
_BELOW_MAJORITY: Final = 0.1
"""The chance of an end that leaves no majority of nodes serving."""
_PHASES: Final = ("starting", "serving", "stopping")


def _disturb(nodes: LocalNodes, dice: random.Random, seconds: float) -> Counter[str]:
    """End nodes, and start them again, for so long. At most two are away at a time, seldom more than one."""
    counts: Counter[str] = Counter()
    back: dict[int, float] = {}
    until = time.monotonic() + seconds
    next_end = time.monotonic() + 1
    while time.monotonic() < until:
        now = time.monotonic()
        for node_id, at in list(back.items()):
            if now >= at:
                nodes.wait_ended(node_id)
                nodes.start(node_id)
                del back[node_id]
        if now >= next_end:
            next_end = now + dice.uniform(1, 7)
            victim = dice.choice([one for one in nodes.running if one not in back])
            majority_stays = len(set(nodes.serving) - {victim}) * 2 > len(nodes.node_ids)
            if len(back) <= 1 and (majority_stays or dice.random() < _BELOW_MAJORITY):
                in_order = dice.random() < _STOPPED
                (nodes.terminate if in_order else nodes.kill)(victim)
                counts["stopped" if in_order else "killed"] += 1
                back[victim] = now + dice.uniform(0.2, 2)
        time.sleep(0.05)
    for node_id in back:
        nodes.wait_ended(node_id)
        nodes.start(node_id)
    return counts


def _run(nodes: LocalNodes, seed: int, seconds: float) -> list[str]:
    """One run; all that is wrong after it."""
    ledger, dice = Ledger(), random.Random(seed)
    nodes.start()
    nodes.wait_ready()
    with Client(nodes.bootstrap) as client:
        create_topic(client, LOAD_TOPIC, partition_count=_LOAD_PARTITIONS)

    def ports() -> list[int]:
        return [nodes.port(node_id) for node_id in nodes.serving or nodes.node_ids]

    clients = [
        *(Admin(number, ports, ledger, seed) for number in range(_ADMINS)),
        Writer(nodes.bootstrap, _LOAD_PARTITIONS, ledger),
    ]
    for each in clients:
        each.start()
    counts = _disturb(nodes, dice, seconds)
    for each in clients:
        each.over.set()
    for each in clients:
        each.join()
    nodes.wait_ready()
    nodes.active()
    seen, faults = until_equal(nodes)
    faults += ledger.oddities
    faults += topic_faults(ledger, seen)
    faults += records_faults(ledger, nodes.bootstrap, _LOAD_PARTITIONS)
    quorum = nodes.quorum()
    high_watermark = -1 if quorum is None else quorum.high_watermark
    begun = time.monotonic()
    for node_id in reversed(nodes.node_ids):
        nodes.terminate(node_id)
        _, code = nodes.wait_ended(node_id)
        if code:
            faults.append(f"node {node_id} ended with {code} when it was stopped")
    print(f"  all stopped in {time.monotonic() - begun:.2f} s", file=sys.stderr)
    faults += log_faults({node_id: nodes.folder / f"node-{node_id}" for node_id in nodes.node_ids}, high_watermark)
    _report(nodes, ledger, counts, len(seen), high_watermark)
    return faults


def _report(nodes: LocalNodes, ledger: Ledger, counts: Counter[str], topics: int, high_watermark: int) -> None:
    print(f"nodes: {counts['killed']} killed, {counts['stopped']} stopped in order")
    for what, count in sorted(ledger.counts.items()):
        print(f"  {what}: {count}")
    certain = sum(told.is_certain for told in ledger.noted())
    print(f"topics: {len(ledger.topics)} asked for, {certain} certain, {topics} there at the end")
    print(f"records: {len(ledger.written)} acknowledged")
    print(f"metadata log: {high_watermark} records committed")
    for phase in _PHASES:
        found = [turn.milliseconds for turn in nodes.turns if turn.phase == phase]
        above = sum(each > 50 for each in found)
        print(f"longest turn of a loop while {phase}: {max(found, default=0):.0f} ms, {above} above 50 ms")


def main(arguments: list[str] | None = None) -> int:
    """Run, report, and keep the folder of a run with faults."""
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=0, help="the kills and the clients' choices; times differ all the same"
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="how long nodes are killed")
    parser.add_argument("--folder", type=Path, default=None, help="where the nodes' files are kept")
    given = parser.parse_args(arguments)
    settings = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    if given.folder is not None:
        with LocalNodes(given.folder, settings=settings) as nodes:
            faults = _run(nodes, given.seed, given.seconds)
    else:
        with Settings().folder(real_disk()) as folder, LocalNodes(folder, settings=settings) as nodes:
            faults = _run(nodes, given.seed, given.seconds)
    for fault in faults[:50]:
        print(f"FAULT {fault}")
    print(f"seed {given.seed}, {given.seconds:g} s: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
