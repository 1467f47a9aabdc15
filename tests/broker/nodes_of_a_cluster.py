"""Nodes of one cluster in this process, each with a loop and a thread of its own, connected by real sockets."""

import os

from stratalog.broker.controller_node import ControllerNode
from stratalog.broker.local_cluster.directories import choose_ports
from stratalog.broker.node import Node
from stratalog.broker.replicas.directory_format import format_node, identity_of
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.formatting.node_format import FormatOptions
from stratalog.wire.topic import uuid_text
from tests.conftest import RunningNode

CLUSTER_ID = "JEXY6aqzQY-32P5TStzaFg"


def node_of(config, **ports):
    """A node of the roles that the settings name."""
    return (Node if config.roles.is_broker else ControllerNode)(config, **ports)


class RunningMember(RunningNode):
    """A node of any role."""

    new_node = staticmethod(node_of)


class RunningNodes:
    """``roles`` by node id. Directories are formatted; nodes start when the test says so."""

    def __init__(self, directory, roles, **settings):
        self.voters = [node_id for node_id, role in roles.items() if "controller" in role]
        self.ports = dict(zip(self.voters, choose_ports([0] * len(self.voters)), strict=True))
        self.ids = {node_id: os.urandom(16) for node_id in self.voters}
        self.members = {
            node_id: RunningMember(f"{directory}/{node_id}", self._settings(node_id, role, settings))
            for node_id, role in roles.items()
        }
        for node_id in roles:
            self.format(node_id)

    def _settings(self, node_id, role, more):
        listeners = [*(["PLAINTEXT://127.0.0.1:0"] if "broker" in role else [])]
        if "controller" in role:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.ports[node_id]}")
        return {
            "process.roles": role,
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self.ports.values()),
            "broker.heartbeat.interval.ms": "200",
            "broker.session.timeout.ms": "2000",
            "controller.quorum.election.timeout.ms": "200",
            "controller.quorum.fetch.timeout.ms": "600",
            **more,
        }

    def format(self, node_id, *, ignore_formatted=False):
        """Format the directories of a node, for the voters of the beginning; those that are, only if they are to be left."""
        config = self.members[node_id].config()
        voters = ",".join(f"{one}@127.0.0.1:{self.ports[one]}:{uuid_text(self.ids[one])}" for one in self.voters)
        options = FormatOptions(
            cluster_id=CLUSTER_ID,
            initial_controllers=voters if config.roles.is_controller else None,
            ignore_formatted=ignore_formatted,
        )
        format_node(identity_of(config), options, files=RealFilesystem(), now_ms=1)

    def __getitem__(self, node_id):
        return self.members[node_id]

    def start(self, *node_ids):
        """Start these, controllers first: a broker waits for its registration. If one cannot start, all stop."""
        wanted = node_ids or tuple(self.members)
        try:
            for node_id in sorted(
                wanted, key=lambda one: "controller" not in self.members[one].settings["process.roles"]
            ):
                self.members[node_id].start()
        except BaseException:  # the thread of a node that runs on keeps the process from ending
            self.stop()
            raise
        return self

    def stop(self):
        """Stop all, brokers first."""
        for _, member in sorted(self.members.items(), key=lambda one: one[0] in self.ports):
            member.stop()
