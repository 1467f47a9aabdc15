"""``stratalog cluster rebalance`` and ``decommission``: replicas and leaders spread evenly, and brokers emptied."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeVar

import click

from stratalog.cli.cluster.plan import LISTED_MAX, Factor, Plan, make_plan, partitions_of, plan_document, write_plan
from stratalog.cli.cluster.run import Outcome, Run
from stratalog.cli.command import broker_options, command
from stratalog.cli.output import ExitCode, json_option, note, reports_errors, write_json
from stratalog.cli.quantities import SIZE_BYTES
from stratalog.client.admin import describe_topic_configs
from stratalog.client.client import BrokerAway, Client
from stratalog.client.quorum import Quorum, QuorumAdmin
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition, uuid_text

__all__ = ["decommission", "rebalance", "voter_sentences"]

_MINIMUM: Final = "min.insync.replicas"
_A_REQUEST: Final = 500

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _plan_options(function: Decorated) -> Decorated:
    for option in (
        click.option(
            "--at-once", type=click.IntRange(min=1), default=4, show_default=True, metavar="COUNT",
            help="Copies that a broker receives at the same time.",
        ),
        click.option(
            "--throttle", type=SIZE_BYTES, metavar="BYTES",
            help="Bytes a second that each broker sends and receives for the moves: 50MiB. Removed at the end.",
        ),
        click.option("--execute", is_flag=True, help="Carry the plan out, and wait for its end."),
        click.option("--dry-run", is_flag=True, help="Show the plan, and change nothing."),
    ):  # fmt: skip
        function = option(function)
    return function


def _ids(_context: click.Context, parameter: click.Parameter, text: str | None) -> set[int] | None:
    if text is None:
        return None
    try:
        return {int(one) for one in text.split(",")}
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of broker ids such as 1,2,3", param=parameter) from error


@command(
    "rebalance",
    """
    stratalog cluster rebalance --dry-run
    stratalog cluster rebalance --execute --throttle 50MiB
    stratalog cluster rebalance --brokers 1,2,3 --dry-run --json
    stratalog cluster rebalance --replication-factor 3 --topic orders --execute
    """,
)
@click.option("--brokers", callback=_ids, metavar="ID,...",
              help="The brokers that hold all replicas in the end; the others are emptied. All if not given.")  # fmt: skip
@click.option("-r", "--replication-factor", type=click.IntRange(min=1), metavar="COUNT",
              help="How many replicas each partition has in the end; as many as now if not given.")  # fmt: skip
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC",
              help="With --replication-factor: only of this topic; may be repeated.")  # fmt: skip
@_plan_options
@json_option
@broker_options
@reports_errors
def rebalance(
    *, brokers: set[int] | None, replication_factor: int | None, topics: tuple[str, ...], **options: Any
) -> None:
    """Spread replicas and leaders evenly over brokers, each partition over as many racks as it can be.

    As few bytes are copied as possible: the smallest partitions move, and the count of replicas is evened out, not their
    traffic. A tiered topic copies only what is not in the bucket yet. A broker that is fenced keeps what it has.
    Replicas are added before others go, and a partition waits while its move would leave fewer than min.insync.replicas in
    sync.

    With --replication-factor partitions get more replicas, or fewer: topics of a cluster that has grown, for instance.
    Fewer: those on brokers that are fenced or gone are taken away first.

    Ctrl-C ends the command: moves that have begun go on, and the throttle stays. The same command goes on from there, and
    removes it where it still moves replicas; stderr names what stays, and how to remove it. Exit code 4: partitions wait for replicas to come in sync, or for a leader;
    stderr names them.
    """
    if topics and replication_factor is None:
        raise click.UsageError("--topic says for which topics --replication-factor holds: give that, too.")
    factor = None if replication_factor is None else Factor(replication_factor, topics)
    _carry_out(spread=True, leaving=(), only=brokers, factor=factor, **options)


@command(
    "decommission",
    """
    stratalog cluster decommission 3 --dry-run
    stratalog cluster decommission 3 --execute --throttle 50MiB
    """,
)
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, type=click.IntRange(min=0))
@_plan_options
@json_option
@broker_options
@reports_errors
def decommission(*, nodes: tuple[int, ...], **options: Any) -> None:
    """Move all replicas off the brokers NODE, also off one that is gone for good; no other replica moves.

    A replica goes to the broker with the fewest, in a rack without one of its partition if there is one. When it is
    through, stop the broker before new topics are placed on it, and unregister it: kafka-cluster.sh unregister --id NODE.
    One that is a voter of the metadata quorum, too, is named with the command that takes it out.
    Exit code 4, too, if replicas were placed on it meanwhile.
    The rest is as with rebalance, which evens out what this leaves uneven.
    """
    _carry_out(spread=False, leaving=nodes, only=None, factor=None, **options)


def _carry_out(
    *,
    spread: bool,
    leaving: Sequence[int],
    only: set[int] | None,
    factor: Factor | None,
    dry_run: bool,
    execute: bool,
    throttle: int | None,
    at_once: int,
    as_json: bool,
    bootstrap: str,
    timeout_seconds: float,
) -> None:
    if dry_run == execute:
        raise click.UsageError("Give --dry-run to see the plan, or --execute to carry it out.")
    if throttle is not None and throttle < 1:
        raise click.UsageError("--throttle: at least 1 byte a second has to pass.")
    with Client(bootstrap, timeout_seconds) as client:
        plan = make_plan(client, leaving=leaving, only=only, spread=spread, factor=factor)
        if as_json:
            write_json({"plan": plan_document(plan, throttle)})
        else:
            write_plan(plan, throttle)
        _tell_short_topics(client, plan)
        if dry_run:
            return
        run = Run(client, plan, at_once=at_once, throttle=throttle, say=note, sleep=time.sleep)
        try:
            outcome = run.run(elect_all=spread)
        except KeyboardInterrupt:
            _tell_unfinished("Interrupted", run, throttle)
            raise SystemExit(int(ExitCode.FAILED)) from None
        except (BrokerAway, KafkaError):
            _tell_unfinished("Not finished", run, throttle)
            raise
        held = _held_by(client, plan.leaving)
        quorum = _quorum(client) if plan.leaving else None
    _tell(outcome, plan, held, as_json=as_json)
    for sentence in voter_sentences(quorum, plan.leaving):
        note(sentence)


def _held_by(client: Client, brokers: Collection[int]) -> list[TopicPartition]:
    """The partitions with a replica on brokers now: topics may have been made during a long run."""
    if not brokers:
        return []
    parts = partitions_of(client.refresh())
    return sorted(one for one, part in parts.items() if not set(part.replicas).isdisjoint(brokers))


def _quorum(client: Client) -> Quorum | None:
    """The metadata quorum; None where it is not told: the brokers are empty all the same."""
    try:
        return QuorumAdmin(client).describe()
    except (BrokerAway, KafkaError):
        return None


def voter_sentences(quorum: Quorum | None, gone: Collection[int]) -> list[str]:
    """Say which of the emptied brokers are voters, too: a quorum counts them until they are taken out."""
    voters = [] if quorum is None else [one for one in quorum.voters if one.node_id in gone]
    return [
        f"Node {one.node_id} is a voter of the metadata quorum, too, which counts it also when it is gone. Take it out before you "
        f"stop it: stratalog quorum remove-controller --controller-id {one.node_id} --controller-directory-id "
        f"{uuid_text(one.directory_id)}"
        for one in voters
        if one.directory_id is not None  # voters without one are static
    ]


def _tell_unfinished(word: str, run: Run, throttle: int | None) -> None:
    """Say what goes on without this command."""
    stays = "" if throttle is None else " Until then their throttle stays."
    note(f"{word}: {run.progress}. Moves that have begun go on; the same command goes on from there.{stays}")


def _tell_short_topics(client: Client, plan: Plan) -> None:
    """Name the topics that get fewer replicas and take no writes then while one of them is away."""
    left = {move.partition.topic: len(move.target) for move in plan.moves if len(move.target) < len(move.replicas)}
    if not left:
        return
    names, minimum = sorted(left), dict[str, int]()
    for start in range(0, len(names), _A_REQUEST):
        settings = describe_topic_configs(client, names[start : start + _A_REQUEST], [_MINIMUM], skip_missing=True)
        minimum |= {name: int(rows[0].value or 1) for name, rows in settings.items() if rows}
    short = [name for name in names if minimum.get(name, 1) >= left[name]]
    if short:
        more = f" and {len(short) - LISTED_MAX} more" if len(short) > LISTED_MAX else ""
        note(
            f"With so few replicas, writes with acks=all to {', '.join(short[:LISTED_MAX])}{more} are refused while a replica is "
            f"away: {_MINIMUM} is {minimum[short[0]]} of {left[short[0]]} for {short[0]}. Lower it, or keep more replicas."
        )


def _tell(outcome: Outcome, plan: Plan, held: Sequence[TopicPartition], *, as_json: bool) -> None:
    if as_json:
        write_json(
            {
                "moved": sorted(map(str, outcome.moved)),
                "refused": {str(one): why for one, why in sorted(outcome.refused.items())},
                "waiting": list(map(str, outcome.waiting)),
                "leaderless": list(map(str, outcome.leaderless)),
                "held": list(map(str, held)),
                "leaders_changed": outcome.leaders_changed,
            }
        )
    if plan.moves or plan.running or outcome.leaders_changed:
        note(f"Moved {len(outcome.moved)} partitions, and gave {outcome.leaders_changed} to their preferred leaders.")
    for one, why in sorted(outcome.refused.items())[:LISTED_MAX]:
        note(f"{one} was not moved: {why}.")
    if outcome.waiting:
        note(
            f"{len(outcome.waiting)} partitions wait: with their move fewer than min.insync.replicas would be in sync: "
            f"{_some(outcome.waiting)}. Bring their brokers back (stratalog cluster says which), and run this again."
        )
    if outcome.leaderless:
        note(
            f"{len(outcome.leaderless)} partitions wait for a leader: no broker that has their records is active: "
            f"{_some(outcome.leaderless)}. Bring their brokers back (stratalog cluster says which), and run this again. If these are gone for "
            "good, so are records: kafka-leader-election --election-type unclean has another replica lead with what it has."
        )
    if outcome.waiting or outcome.leaderless:
        raise SystemExit(int(ExitCode.UNHEALTHY))
    if outcome.refused:
        raise SystemExit(int(ExitCode.FAILED))
    if plan.leaving:
        _tell_left(plan.leaving, held)


def _tell_left(gone: Collection[int], held: Sequence[TopicPartition]) -> None:
    """Say that brokers are empty, or are not."""
    who = f"Brokers {', '.join(map(str, sorted(gone)))} hold" if len(gone) > 1 else f"Broker {min(gone)} holds"
    if not held:
        note(f"{who} no replica any more.")
        return
    note(f"{who} replicas of {len(held)} partitions that were placed there meanwhile: {_some(held)}. Run this again.")
    raise SystemExit(int(ExitCode.UNHEALTHY))


def _some(partitions: Sequence[TopicPartition]) -> str:
    more = f" and {len(partitions) - LISTED_MAX} more" if len(partitions) > LISTED_MAX else ""
    return ", ".join(map(str, partitions[:LISTED_MAX])) + more
