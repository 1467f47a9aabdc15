"""Settings from file, environment and command line become one value, or a list of everything that is wrong."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stratalog.broker.settings.config import BrokerConfig, ConfigRefused, Flags, load_config, parse_assignment
from stratalog.metadata.settings.by_name import definitions
from stratalog.metadata.settings.resolution import resolve_topic_config

STOCK = """
# the settings of the server.properties that comes with Kafka 4.3, in its order
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
#log.flush.interval.messages=10000
#log.flush.interval.ms=1000
log.retention.hours=168
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""

STOCK_BROKER = """
process.roles=broker
node.id=2
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://localhost:9092
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
log.dirs=/tmp/kraft-broker-logs
"""
STOCK_CONTROLLER = """
process.roles=controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=CONTROLLER://:9093
advertised.listeners=CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-controller-logs
"""
THREE_NODES = """
process.roles=broker,controller
node.id=2
listeners=PLAINTEXT://host2:9092,CONTROLLER://host2:9093
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=host1:9093,host2:9093,host3:9093
"""


@pytest.fixture
def load(tmp_path):
    """Load a configuration whose file holds `content`; what it names is beside the test's own directory."""

    def loaded(content: str | None = None, *, name: str = "server.properties", **options) -> BrokerConfig:
        path = None
        if content is not None:
            path = str(tmp_path / name)
            (tmp_path / name).write_text(content)
        return load_config(path=path, **options)

    return loaded


def problems(load, *arguments, **options) -> tuple[str, ...]:
    """The problems that a configuration is refused for."""
    with pytest.raises(ConfigRefused) as caught:
        load(*arguments, **options)
    return caught.value.problems


def test_a_stock_kafka_file_is_taken_as_it_is(load) -> None:
    """Every value arrives; the controller's listener is recognised; nothing is refused."""
    config = load(STOCK)
    assert config.node_id == 1
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)
    assert [str(one) for one in config.listeners] == ["PLAINTEXT://:9092"]
    assert [str(one) for one in config.advertised_listeners] == ["PLAINTEXT://localhost:9092"]
    assert [str(one) for one in config.controller_listeners] == ["CONTROLLER://:9093"]
    assert config.integer("log.segment.bytes") == 1 << 30
    assert config.integer("log.retention.hours") == 168


def test_a_setting_without_effect_is_one_notice(load, tmp_path) -> None:
    """Kafka's thread pools are known and said to change nothing, with file and line; settings at work are not noted."""
    notices = load(STOCK).notices
    mine = [notice for notice in notices if "num.io.threads" in notice]
    assert len(mine) == 1
    assert mine[0].startswith(f"{tmp_path}/server.properties:12: num.io.threads has no effect: ")
    assert not any("log.segment.bytes" in notice for notice in notices)


def test_without_any_setting_there_are_defaults(load) -> None:
    """One listener, HTTP on loopback, archive and cache beside the log directory."""
    config = load(host_name="node-1")
    assert [str(one) for one in config.advertised_listeners] == ["PLAINTEXT://node-1:9092"]
    assert config.http_host == "127.0.0.1"
    (log_dir,) = config.log_dirs
    assert config.metadata_log_dir == log_dir
    assert config.bucket_url == f"file://{log_dir}-bucket"
    assert config.cache_dir == f"{log_dir}-cache"
    assert config.static == {}
    assert config.notices == ()


def test_later_places_win_and_each_value_keeps_its_origin(load, tmp_path) -> None:
    """Default, file, environment, --set, flags, in this order."""
    config = load(
        "num.partitions=2\nlog.segment.bytes=2000000\nlog.index.interval.bytes=2\nlog.dirs=/file\n",
        environment={
            "STRATALOG_NUM_PARTITIONS": "3",
            "STRATALOG_LOG_SEGMENT_BYTES": "3000000",
            "STRATALOG_LOG_DIRS": "/variable",
        },
        assignments=["num.partitions=4", "log.dirs=/set"],
        flags=Flags(data="/flag"),
    )
    assert config.integer("num.partitions") == 4
    assert config.integer("log.segment.bytes") == 3_000_000
    assert config.integer("log.index.interval.bytes") == 2
    assert config.log_dirs == ("/flag",)
    origins = {row.name: row.origin for row in config.rows()}
    assert origins["num.partitions"] == "--set"
    assert origins["log.segment.bytes"] == "environment STRATALOG_LOG_SEGMENT_BYTES"
    assert origins["log.index.interval.bytes"] == f"{tmp_path}/server.properties:3"
    assert origins["log.dirs"] == "--data"
    assert origins["log.flush.interval.messages"] == "default"


def test_rows_are_every_setting_with_secrets_hidden(load) -> None:
    """The output of --print-config is complete and shows no password."""
    config = load("log.dirs=/a,/b\n")
    secret = definitions()["ssl.keystore.password"].parse("hunter2")
    config = replace(config, values={**config.values, "ssl.keystore.password": secret})
    rows = {row.name: row.text for row in config.rows()}
    assert set(rows) == set(definitions())
    assert rows["ssl.keystore.password"] == "[hidden]"
    assert rows["log.dirs"] == "/a,/b"


def test_toml_is_the_same_configuration(load) -> None:
    """The same names in a .toml file."""
    config = load('"log.dirs" = ["/a", "/b"]\nnum.partitions = 6\n', name="broker.toml")
    assert config.log_dirs == ("/a", "/b")
    assert config.integer("num.partitions") == 6


def test_a_variable_may_leave_out_our_own_prefix(load) -> None:
    """`stratalog.bucket.url` is STRATALOG_BUCKET_URL."""
    config = load(environment={"STRATALOG_BUCKET_URL": "s3://archive/prod", "STRATALOG_BUCKET_REGION": "eu-west-1"})
    assert config.bucket_url == "s3://archive/prod"
    assert config.bucket_options == {"region": "eu-west-1"}


@pytest.mark.parametrize(
    "url", ["memory:", "memory:x", "file:///a b", "file://localhost/a", "s3://bucket", "gs://b/p/q", "abfs://c@a/p"]
)
def test_urls_of_stores_are_taken(load, url) -> None:
    """Whether anybody can open them is seen when they are opened."""
    assert load(flags=Flags(bucket=url)).bucket_url == url


def test_unknown_names_are_refused_all_at_once_with_the_nearest_name(load, tmp_path) -> None:
    """Misspelt, ZooKeeper's and removed names each get their sentence, with file and line or variable."""
    found = problems(
        load,
        "log.segment.byte=1\nzookeeper.connect=localhost:2181\n",
        environment={"STRATALOG_NUM_PARTITION": "1"},
        assignments=["qqqq=1"],
    )
    assert found[0].startswith(f"{tmp_path}/server.properties:1: ")
    assert "log.segment.bytes" in found[0]
    assert "ZooKeeper" in found[1]
    assert found[2].startswith("environment STRATALOG_NUM_PARTITION: ")
    assert "num.partitions" in found[2]
    assert found[3].startswith("--set: ")
    assert len(found) == 4


def test_a_wrong_value_is_refused_with_kafkas_words_and_its_place(load, tmp_path) -> None:
    """Type and range are checked by the catalogue."""
    found = problems(load, "num.partitions=many\nlog.segment.bytes=-1\n")
    assert found[0].startswith(f"{tmp_path}/server.properties:1: Invalid value many for configuration num.partitions")
    assert "log.segment.bytes" in found[1]


@pytest.mark.parametrize("name", ["rsm.config.bucket", "listener.name.internal.num.network.threads"])
def test_names_of_plug_ins_and_of_one_listener_are_noted(load, name) -> None:
    """They cannot be listed, so they are accepted, with a line that they change nothing."""
    (notice,) = load(f"{name}=x\n").notices
    assert f"{name} has no effect" in notice


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("sasl.enabled.mechanisms=SCRAM-SHA-512", "clients are not authenticated"),
        ("ssl.client.auth=required", "plain text"),
        ("principal.builder.class=com.example.Mine", "Java class"),
        ("connections.max.reauth.ms=1000", "clients are not authenticated"),
        ("delegation.token.secret.key=hunter2", "token"),
        ("security.inter.broker.protocol=SASL_SSL", "one broker"),
        ("listener.name.internal.ssl.keystore.location=x", "holds for all listeners"),
        ("listener.name.a.plain.sasl.jaas.config=x", "holds for all listeners"),
        ("super.users=User:a", "without authorizer.class.name"),
        ("allow.everyone.if.no.acl.found=true", "without authorizer.class.name"),
    ],
)
def test_settings_that_would_protect_nothing_stop_the_start(load, line, why) -> None:
    """A broker that looks guarded and is not would be worse than none. Secrets are not repeated."""
    (problem,) = problems(load, f"{line}\n")
    assert line.partition("=")[0] in problem
    assert why in problem
    assert "hunter2" not in problem


def test_the_defaults_of_security_settings_may_be_written_down(load) -> None:
    """Stock files do so."""
    config = load("sasl.mechanism.inter.broker.protocol=GSSAPI\nsecurity.inter.broker.protocol=PLAINTEXT\n")
    assert len(config.notices) == 2


@pytest.mark.parametrize("users", ["alice;User:bob", "User:", "user:bob", "Group:ops", "User:*"])
def test_impossible_super_users_stop_the_start(load, users) -> None:
    """Kafka stops for a name without a colon; of another type, or as a star, it would never be found."""
    authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
    (problem,) = problems(load, f"{authorizer}super.users={users}\n")
    assert problem.startswith("super.users names ")


def test_an_unknown_setting_of_a_listener_is_refused(load) -> None:
    """The prefix does not hide a misspelt name."""
    assert "listener.name.internal.nonsense" in problems(load, "listener.name.internal.nonsense=1\n")[0]


def test_a_duplicate_line_counts_last_and_is_noted(load) -> None:
    """As in Java, but said."""
    config = load("num.partitions=2\nnum.partitions=3\n")
    assert config.integer("num.partitions") == 3
    assert len([notice for notice in config.notices if "twice" in notice]) == 1


def test_the_listen_flag_replaces_both_listener_settings(load) -> None:
    """Addresses advertised by the file belong to the file's listeners; those of --set are kept."""
    config = load(STOCK, flags=Flags(listen="127.0.0.1:0"))
    assert [str(one) for one in config.listeners] == ["PLAINTEXT://127.0.0.1:0"]
    assert [str(one) for one in config.advertised_listeners] == ["PLAINTEXT://127.0.0.1:0"]
    behind = load(STOCK, flags=Flags(listen="[::]:9092"), assignments=["advertised.listeners=PLAINTEXT://proxy:443"])
    assert [str(one) for one in behind.advertised_listeners] == ["PLAINTEXT://proxy:443"]


@pytest.mark.parametrize(
    ("content", "roles", "served", "controllers", "address"),
    [
        (STOCK, {"broker", "controller"}, ["PLAINTEXT"], ["CONTROLLER"], ("localhost", 9093)),
        (STOCK_BROKER, {"broker"}, ["PLAINTEXT"], [], None),
        (STOCK_CONTROLLER, {"controller"}, [], ["CONTROLLER"], ("localhost", 9093)),
        (THREE_NODES, {"broker", "controller"}, ["PLAINTEXT"], ["CONTROLLER"], ("host2", 9093)),
        (
            THREE_NODES.replace("bootstrap.servers=host1:9093,host2:9093,host3:9093", "voters=1@a:1,2@b:2,3@c:3"),
            {"broker", "controller"},
            ["PLAINTEXT"],
            ["CONTROLLER"],
            ("host2", 9093),
        ),
    ],
)
def test_the_files_of_a_cluster_of_several_are_read_by_role(load, content, roles, served, controllers, address) -> None:
    """Kafka's server.properties, broker.properties and controller.properties, and a node of its three-node example."""
    config = load(content)
    assert config.roles.roles == roles
    assert [one.name for one in config.listeners] == [one.name for one in config.advertised_listeners] == served
    assert [one.name for one in config.controller_listeners] == controllers
    assert config.controller_address == address
    told = [(one.name, one.host, one.port) for one in config.told_controller_listeners]
    assert told == [(name, *address) for name in controllers]
    assert config.roles.node_id == config.node_id


def test_a_stock_node_is_alone_and_a_node_with_peers_is_not(load) -> None:
    """One server may be this machine under any name; every other sign of a second node counts."""
    assert not load(STOCK).roles.has_peers
    assert not load(None).roles.has_peers
    assert all(load(content).roles.has_peers for content in (STOCK_BROKER, STOCK_CONTROLLER, THREE_NODES))


def test_the_other_flags_are_settings_too(load) -> None:
    """--bucket and --http."""
    config = load(flags=Flags(bucket="memory:", http="[::1]:0"))
    assert config.bucket_url == "memory:"
    assert (config.http_host, config.http_port) == ("::1", 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("listeners=SSL://:9093\n", "only PLAINTEXT is served"),
        (
            THREE_NODES + "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL\n",
            "only PLAINTEXT is served",
        ),
        ("listeners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n", "only controller listeners"),
        ("listeners=INTERNAL://:9092\n", "no security protocol is defined for listener INTERNAL"),
        ("listeners=PLAINTEXT://:9092,CONTROLLER://:9092\n", "port 9092 is used by 2 listeners"),
        ("process.roles=controller\n", "The listeners config must only contain KRaft controller listeners"),
        ("process.roles=broker\n", "either controller.quorum.bootstrap.servers must contain"),
        ("controller.quorum.voters=1@a\n", "Failed to parse host name and port from entry 1@a"),
        ("controller.quorum.bootstrap.servers=a\n", "Failed to parse host name and port from a for"),
        ("controller.quorum.voters=2@a:1,3@b:2\n", "the node id 1 must be included in the set of voters"),
        ("node.id=1\nbroker.id=2\n", "broker.id 2 is not node.id 1"),
        ("log.dirs=/a,/b,/a/\n", "names the directory /a twice"),
        ("stratalog.http.listener=8080\n", "'8080' is not HOST:PORT"),
        ("listener.security.protocol.map=A\n", "'A' is not NAME:PROTOCOL"),
        ("stratalog.bucket.url=./bucket\n", "'./bucket' is no URL of a store"),
        ("stratalog.bucket.url=file://bucket\n", "is no URL of a store"),
        ("stratalog.bucket.url=s3:///prefix\n", "is no URL of a store"),
        ("log.roll.ms=0\n", "log.roll.ms must be greater than or equal to 1"),
        ("name=\\u12\n", "malformed unicode escape"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(load, content, message) -> None:
    """Each has its sentence."""
    assert any(message in problem for problem in problems(load, content))


def test_a_path_is_short_for_the_url_of_a_bucket_in_a_directory(load) -> None:
    """Also with blanks in it."""
    assert load("stratalog.bucket.url=/srv/my archive\n").bucket_url == "file:///srv/my%20archive"


@pytest.mark.parametrize(
    "options", [{"assignments": ["num.partitions"]}, {"assignments": ["=1"]}, {"flags": Flags(listen="x")}]
)
def test_a_wrong_flag_is_refused(load, options) -> None:
    """--set without a value or a name, --listen that is no address."""
    assert problems(load, **options)[0].startswith(("--set", "--listen"))


def test_a_broker_id_is_a_node_id(load) -> None:
    """Kafka's older name, when it is the only one."""
    assert load("broker.id=7\n").node_id == 7


def test_relative_directories_become_absolute(load, tmp_path, monkeypatch) -> None:
    """So that messages and the default archive name real places."""
    monkeypatch.chdir(tmp_path)
    config = load(flags=Flags(data="with space/data"))
    assert config.log_dirs == (f"{tmp_path}/with space/data",)
    assert config.bucket_url == f"file://{tmp_path}/with%20space/data-bucket"


def test_topic_settings_take_their_defaults_from_the_texts_given(load) -> None:
    """Hours in the file are a topic's retention in milliseconds."""
    static = load("log.retention.hours=2\n").static
    assert resolve_topic_config({}, static)["retention.ms"].value == 7_200_000


def test_typed_values_are_read_by_kind(load) -> None:
    """Whole numbers, booleans and texts."""
    config = load("auto.create.topics.enable=false\nbroker.rack=a\n")
    assert config.boolean("auto.create.topics.enable") is False
    assert config.text("broker.rack") == "a"
    assert config.text("metadata.log.dir") is None
    assert config.rack == "a"


def test_an_assignment_may_hold_equals_signs() -> None:
    """Only the first one separates."""
    assert parse_assignment("a=b=c").text == "b=c"


def test_a_missing_file_is_an_os_error(load) -> None:
    """The command line turns it into "not found"."""
    with pytest.raises(FileNotFoundError):
        load_config(path="/nowhere/server.properties")
