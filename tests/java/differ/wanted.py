"""The differences that are meant to be, each with its reason. A difference that is not listed is a fault."""

from __future__ import annotations

from tests.java.differ.story import Wanted

TEXT = "['\"].*['\"]"
MISSING = "'<missing>'"
CLOSED = "connection|error_code|error_message|resources|results|filter_results"
"""Differences where Kafka ends the connection and this broker answers."""
DESCRIBED = r".*: (?:topics\.[^:]*|results\[\])\.configs\."
"""Where answers of CreateTopics and DescribeConfigs list settings."""
OF_BROKER = r"broker(?: with synonyms)?: results\[\]\.configs\."

MESSAGES = (
    Wanted(
        "messages of success",
        "Kafka fills in an empty text or NONE; clients read a message only beside an error",
        path=r".*\berror_message",
        kafka="''|'NONE'",
        ours="None",
    ),
    Wanted(
        "messages where Kafka has none",
        "an error says what happened and where; clients show their own sentence only where the broker sends none",
        path=r".*\berror_message",
        kafka="None",
        ours=TEXT,
    ),
    Wanted(
        "words for broken batches",
        "the message names the partition and what was wrong with the batch",
        story="batches that are not whole",
        path=r"(?:zeros|magic 3|length below a header): .*\.error_message",
    ),
    Wanted(
        "words for unknown kinds",
        "the message names the kind; Kafka points to its log",
        story="described settings",
        path=r"(?:unknown|no) kind: .*error_message",
    ),
    Wanted(
        "words for expressions",
        "RE2's own words for what is wrong with an expression differ between C++ and Java",
        story="expressions of consumer groups",
        path="bad expression: error_message",
    ),
    Wanted(
        "words for addresses of quotas",
        "names of hosts are not taken, so the message does not speak of them",
        story="altered quotas",
        path=r"no address: entries\[\]\.error_message",
    ),
    Wanted(
        "words for listeners of all brokers",
        "listeners cannot be changed while the broker runs at all",
        story="changed settings of brokers",
        path=r"of one broker only, for all: .*error_message",
    ),
)

MISSING_APIS = (
    Wanted(
        "APIs not served",
        "docs/compatibility.md lists them: tokens, share groups, streams groups, voters",
        story="api versions",
        path=r".*: api_keys\.(?:38|39|4[01]|7[6-9]|8[013-9]|9[0-2])",
        ours=MISSING,
    ),
    Wanted(
        "features not there",
        "those of several voters, share groups and streams groups",
        story="api versions",
        path=r"good: supported_features\.(?:kraft|share|streams)\.version",
        ours=MISSING,
    ),
)

SETTINGS = (
    Wanted(
        "own settings", "tiering has settings that Kafka does not", path=rf"{DESCRIBED}stratalog\..*", kafka=MISSING
    ),
    Wanted(
        "copy lag of Kafka 4.4",
        "KIP-1241: it may be set here already, and is described then",
        story="changed settings of topics",
        path=r"(?:remote\.copy\.lag\.bytes: .*|in the end: results\[\]\.configs\.remote\.copy\.lag\.bytes)",
    ),
    Wanted(
        "sync on ack",
        "docs/decisions/0002: a batch is on the disk before it is acknowledged",
        path=rf"{DESCRIBED}(?:flush\.messages|log\.flush\.interval\.messages)\.(?:synonyms\[\]\.)?value",
        kafka="'9223372036854775807'",
        ours="'1'",
    ),
    Wanted(
        "own log directory",
        "docs/decisions/0003: its default is not Kafka's directory",
        path=rf"{OF_BROKER}log\.dir\.(?:synonyms\[\]\.)?value",
        kafka="'/tmp/kafka-logs'",
    ),
    Wanted(
        "tiering is on",
        "it needs no plug-in; nothing is tiered until a topic says so",
        path=rf"{OF_BROKER}remote\.log\.storage\.system\.enable\.(?:synonyms\[\]\.)?value",
        kafka="'false'",
    ),
    Wanted(
        "one process without a controller's listener",
        "node, roles, voters and listeners stand in Kafka's file, and are defaults or flags here",
        path=rf"{OF_BROKER}(?:broker\.id|controller\.listener\.names|controller\.quorum\.voters|listeners|node\.id"
        r"|listener\.security\.protocol\.map|process\.roles)\..*",
    ),
    Wanted(
        "advertised listeners are described",
        "if they are not set, the addresses that clients get are described",
        path=rf"{OF_BROKER}advertised\.listeners\..*",
    ),
    Wanted(
        "super users are shown",
        "Kafka's broker does not know its authorizer's settings and takes them for secrets",
        path=rf"{OF_BROKER}super\.users\..*",
    ),
    Wanted(
        "synonyms of times",
        "the whole chain from milliseconds to hours is listed for topics, so that the source shown is the true one",
        path=rf"{DESCRIBED}(?:flush\.ms|retention\.ms|segment\.jitter\.ms|segment\.ms)\.synonyms",
        ours=r"\[.*\]",
    ),
    Wanted(
        "synonyms of the broker's times",
        "a broker setting is described by itself; Kafka adds the default in hours where the one in milliseconds is set",
        story="changed settings of brokers",
        path=r".*: results\[\]\.configs\.log\.retention\.ms\.synonyms",
    ),
    Wanted(
        "synonyms of settings of share groups",
        "there are no share groups",
        path=r"group: results\[\]\.configs\.share\..*\.synonyms",
    ),
    Wanted(
        "threads that are not there",
        "numbers of threads are kept and have no effect, so any number will do",
        story="changed settings of brokers",
        path=r"(?:out of range|too many threads at once): .*",
    ),
    Wanted(
        "unknown settings are refused",
        "a misspelt setting would do nothing in silence",
        story="changed settings of brokers",
        path=r"unknown setting of a listener: responses\[\]\.error_code",
    ),
    Wanted(
        "unknown operations of settings",
        "INVALID_REQUEST in place of Kafka's UNKNOWN_SERVER_ERROR",
        story="changed settings of topics",
        path=r"unknown operation: responses\[\]\.error_code",
        kafka="-1",
    ),
)

TOPICS = (
    Wanted(
        "names that collide in one request",
        "Kafka compares a new name with those that are there, and not with those of the same request",
        story="create topics",
        path=r"dot and underscore collide: topics\.created\.\d_x\..*",
    ),
    Wanted(
        "topics whose names collide are not listed",
        "they were not created",
        story="listed settings",
        path=r".*: config_resources\.created\.\d_x",
        ours=MISSING,
    ),
    Wanted(
        "too many partitions",
        "POLICY_VIOLATION says what Kafka's UNKNOWN_SERVER_ERROR means",
        story="create partitions",
        path=r"very many: results\[\]\.error_code",
        kafka="-1",
    ),
    Wanted(
        "unknown kinds of elections",
        "refused before the partitions are looked at; this request has none",
        story="elections",
        path="no kind: error_code",
    ),
)

RECORDS = (
    Wanted(
        "unknown isolation levels",
        "a level that is not read_committed reads everything; Kafka answers UNKNOWN_SERVER_ERROR",
        story="read records|offsets by time",
        path="bad isolation: .*",
    ),
    Wanted(
        "aborted transactions beside an unknown epoch",
        "an empty list in place of null: a client looks at neither beside an error",
        story="read records",
        path=r"newer epoch: .*\.aborted_transactions",
    ),
    Wanted(
        "records are not opened",
        "docs/compatibility.md: headers, lengths and CRC are checked at the append, records where the topic asks for it",
        story="batches that are not whole",
        path=r"gzip that is none: .*",
    ),
    Wanted(
        "unknown codecs",
        "INVALID_RECORD says what Kafka's UNKNOWN_SERVER_ERROR means",
        story="batches that are not whole",
        path=r"unknown codec: .*\.(?:error_code|log_start_offset)",
    ),
    Wanted(
        "batches stamped by the producer",
        "Kafka takes them and clears the bit where the topic has CreateTime; no client sends them",
        story="batches that are not whole",
        path=r"stamped by the producer: .*",
    ),
    Wanted(
        "bytes behind a batch",
        "nothing may stand behind the one batch; Kafka passes over what begins none, and then misses its CRC",
        story="batches that are not whole",
        path=r"length of a header: .*",
    ),
    Wanted(
        "log start beside what is no batch",
        "it comes with every INVALID_RECORD; Kafka gives -1 where it did not get as far as the log",
        story="batches that are not whole",
        path=r"(?:empty|two batches|cut|magic 1): .*\.log_start_offset",
        kafka="-1",
        ours="0",
    ),
)

GROUPS = (
    Wanted(
        "groups that are named twice",
        "a group is described once in an answer, however often the request names it: a small request could ask for much",
        story="described groups",
        path=r"twice: groups",
    ),
    Wanted(
        "offsets of groups that are named twice",
        "all offsets of a group come once in an answer, however often the request names it",
        story="fetched offsets of groups",
        path=r"twice: groups",
    ),
    Wanted(
        "protocol name beside an error",
        "an empty name in place of null: the error is known before the version of the answer is",
        path=".*: protocol_name",
        kafka="None",
        ours="''",
    ),
    Wanted(
        "groups of refused joins",
        "Kafka keeps an empty group for a JoinGroup that it refused; here nothing remains",
        story="committed offsets",
        path=r"listed: groups\.j[23]-.*",
        ours=MISSING,
    ),
    Wanted(
        "epochs of consumer groups",
        "docs/compatibility.md: they begin at 1, in Kafka at 2 for a group with topics",
        story="consumer groups",
        path=r".*(?:_epoch|future epoch: error_message)",
    ),
)

ACCESS = (
    Wanted(
        "unknown kinds in rules",
        "INVALID_REQUEST with a message in place of an ended connection",
        story="access rules|described rules|deleted rules",
        path=rf"(?:.* unknown|unknown .*|one good, one bad): (?:{CLOSED})",
    ),
    Wanted(
        "kinds of filters in rules",
        "INVALID_REQUEST with a message in place of UNKNOWN_SERVER_ERROR",
        story="access rules",
        path=r"(?:operation any|type any|pattern any|pattern match|permission any): results\[\]\.error_code",
        kafka="-1",
    ),
    Wanted(
        "numbers of unknown operations",
        "the message names the number that was sent",
        story="access rules",
        path=r"operation beyond all: results\[\]\.error_message",
    ),
)

FRAMES = (
    Wanted(
        "versions to come in a header of today",
        "ApiVersions of an unknown version is answered whatever follows the client's name (KIP-511)",
        story="frames",
        path=r"a header that ends too early: .*",
    ),
)

WANTED: tuple[Wanted, ...] = (
    *MESSAGES,
    *MISSING_APIS,
    *SETTINGS,
    *TOPICS,
    *RECORDS,
    *GROUPS,
    *ACCESS,
    *FRAMES,
)
