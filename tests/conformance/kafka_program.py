"""Stands for two programs of Kafka's distribution in librdkafka's suite, through the client that is here anyway.

Called as ``kafka_program.py kafka-topics.sh --bootstrap-server HOST:PORT --create --topic NAME …``.
"""

from __future__ import annotations

import argparse
import sys

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

TIMEOUT_SECONDS = 30


def parser_of(*actions: str) -> argparse.ArgumentParser:
    """Arguments of both programs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", required=True)
    action = parser.add_mutually_exclusive_group(required=True)
    for name in actions:
        action.add_argument(f"--{name}", dest="action", action="store_const", const=name)
    return parser


def topics(words: list[str]) -> None:
    """Create or delete a topic, or give it more partitions."""
    parser = parser_of("create", "alter", "delete")
    parser.add_argument("--partitions", type=int, default=-1)
    parser.add_argument("--replication-factor", type=int, default=-1)
    parser.add_argument("--config", action="append", default=[])
    said = parser.parse_args(words)
    admin = AdminClient({"bootstrap.servers": said.bootstrap_server})
    if said.action == "create":
        config = dict(line.split("=", 1) for line in said.config)
        done = admin.create_topics([NewTopic(said.topic, said.partitions, said.replication_factor, config=config)])
    elif said.action == "alter":
        done = admin.create_partitions([NewPartitions(said.topic, said.partitions)])
    else:
        done = admin.delete_topics([said.topic])
    done[said.topic].result(TIMEOUT_SECONDS)


def acls(words: list[str]) -> None:
    """Add or remove the rule of one topic."""
    parser = parser_of("add", "remove")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--operation", required=True)
    for permission in ("allow", "deny"):
        parser.add_argument(f"--{permission}-principal", dest="principal")
        parser.add_argument(f"--{permission}-host", dest="host")
    said = parser.parse_args(words)
    permission = AclPermissionType.ALLOW if "--allow-principal" in words else AclPermissionType.DENY
    rule = (
        ResourceType.TOPIC,
        said.topic,
        ResourcePatternType.LITERAL,
        said.principal,
        said.host,
        AclOperation[said.operation.upper()],
        permission,
    )
    admin = AdminClient({"bootstrap.servers": said.bootstrap_server})
    if said.action == "add":
        done = admin.create_acls([AclBinding(*rule)])
    else:
        done = admin.delete_acls([AclBindingFilter(*rule)])
    for each in done.values():
        each.result(TIMEOUT_SECONDS)


PROGRAMS = {"kafka-topics.sh": topics, "kafka-acls.sh": acls}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](sys.argv[2:])
