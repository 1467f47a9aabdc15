import asyncio
import struct
import sys
from types import SimpleNamespace

import pytest

from stratalog.broker.requests.dispatch import NO_RESPONSE, PENDING, Dispatcher, Operation, ResourceType
from stratalog.broker.runtime.metrics import Metrics
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.frame import encode_request
from stratalog.wire.schema import encode_bytes

CALLS = 10
"""Python calls of one request: to dispatch, decode, handle, answer."""


async def test_five_pipelined_answers_leave_in_send_order_also_when_the_second_fails(serve, wire):
    """Answers that become ready in reverse order, one an error, still leave in the order of the requests."""
    parked = []

    def handle(context, request):
        parked.append((context, request.text))
        if len(parked) == 5:
            for waiting, text in reversed(parked):
                if text == "2":
                    waiting.fail(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "too few"))
                else:
                    waiting.respond(wire.EchoResponse(error_code=0, text=text))
        return PENDING

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    await client.send(*(client.frame(wire.EchoRequest(text=str(n)), 1) for n in range(1, 6)))
    answers = [await client.answer(wire.EchoResponse, 1) for _ in range(5)]
    assert [correlation_id for correlation_id, _ in answers] == [1, 2, 3, 4, 5]
    assert [answer.text for _, answer in answers] == ["1", "", "3", "4", "5"]
    assert [answer.error_code for _, answer in answers] == [0, 19, 0, 0, 0]
    assert answers[1][1].error_message == "too few"


async def test_an_immediate_answer_waits_for_a_parked_one(serve, wire, until):
    """A request that is answered at once does not overtake an earlier one that waits."""
    parked = []

    def handle(context, request):
        if request.action:
            parked.append(context)
            return PENDING
        return wire.EchoResponse(error_code=0, text=request.text)

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="slow", action=1)), client.frame(wire.EchoRequest(text="b")))
    await until(lambda: parked)
    parked[0].respond(wire.EchoResponse(error_code=0, text="a"))
    assert [(await client.answer(wire.EchoResponse))[1].text for _ in range(2)] == ["a", "b"]


async def test_handler_that_answers_before_it_returns_pending(serve, wire):
    """A handler may complete its context inside the call and still return PENDING."""

    def handle(context, request):
        context.respond(wire.EchoResponse(error_code=0, text=request.text))
        return PENDING

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    assert (await client.ask(wire.EchoRequest(text="now"), wire.EchoResponse)).text == "now"


async def test_no_response_leaves_no_bytes(serve, wire):
    """A request without an answer (acks=0) is followed by the next request's answer directly."""

    def handle(context, request):
        return NO_RESPONSE if request.action else wire.EchoResponse(error_code=0, text=request.text)

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="", action=1)), client.frame(wire.EchoRequest(text="b")))
    assert await client.answer(wire.EchoResponse) == (2, wire.EchoResponse(error_code=0, text="b"))


async def test_kafka_errors_become_answers_and_the_connection_goes_on(serve, wire):
    """A KafkaError is answered with its code and message; the next request on the connection is served."""

    def handle(context, request):
        if request.action:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "not like this")
        return wire.EchoResponse(error_code=0, text=request.text)

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    answer = await client.ask(wire.EchoRequest(text="", action=1), wire.EchoResponse, 1)
    assert (answer.error_code, answer.error_message) == (42, "not like this")
    assert (await client.ask(wire.EchoRequest(text="fine"), wire.EchoResponse)).text == "fine"


async def test_unexpected_exceptions_become_unknown_server_error_with_a_log_entry(serve, wire, caplog):
    """A bug in a handler is answered with -1, is logged with its traceback, and the server lives on."""

    def handle(context, request):
        raise ZeroDivisionError

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    assert (await client.ask(wire.EchoRequest(text=""), wire.EchoResponse)).error_code == -1
    assert "ZeroDivisionError" in caplog.text
    assert (await client.ask(wire.EchoRequest(text=""), wire.EchoResponse)).error_code == -1


async def test_a_failed_request_without_room_for_an_error_closes_the_connection(serve, wire, caplog):
    """Where the response has no top-level error and the row builds none, the connection closes with the reason."""

    def handle(context, request):
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    edge = await serve(wire.file_api(handle))
    client = await edge.client()
    await client.send(client.frame(wire.FileRequest(position=0, length=1)))
    assert await client.closed_by_server()
    assert "File v0 has no answer for the error INVALID_REQUEST" in caplog.text


async def test_a_row_can_build_its_own_failure_answer(serve, wire):
    """The failure function of a row gets request, version and error."""

    def failure(request, version, error):
        return wire.EchoResponse(error_code=0, text=f"{request.text} {version} {error.code.name}")

    def handle(context, request):
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    edge = await serve(wire.echo_api(handle, failure=failure))
    client = await edge.client()
    assert (await client.ask(wire.EchoRequest(text="x"), wire.EchoResponse, 2)).text == "x 2 INVALID_REQUEST"


async def test_an_answer_that_cannot_be_encoded_closes_the_connection(serve, wire, caplog):
    """A handler whose answer does not fit the message loses its connection, not the server."""
    edge = await serve(wire.echo_api(lambda context, request: wire.EchoResponse(error_code=10**6)))
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="")))
    assert await client.closed_by_server()
    assert "cannot be encoded" in caplog.text


async def test_coroutines_answer_slow_requests(serve, wire):
    """``context.run`` answers with the coroutine's result, or maps what it raises."""

    async def slow(request):
        await asyncio.sleep(0)
        if request.action:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return wire.EchoResponse(error_code=0, text=request.text)

    edge = await serve(wire.echo_api(lambda context, request: context.run(slow(request))))
    client = await edge.client()
    assert (await client.ask(wire.EchoRequest(text="late"), wire.EchoResponse)).text == "late"
    assert (await client.ask(wire.EchoRequest(text="", action=1), wire.EchoResponse)).error_code == 7


async def test_unknown_key_and_version_close_the_connection_with_one_line(serve, wire, caplog):
    """Kafka closes the connection for what it does not serve; the log says what is served."""
    edge = await serve(wire.echo_api())
    for head, line in (
        (struct.pack(">hhih", 999, 3, 1, -1), "API key 999 v3 is not served"),
        (struct.pack(">hhih", 1000, 9, 1, -1), "API key 1000 v9 is not served; Echo is served from v0 to v2"),
    ):
        caplog.clear()
        client = await edge.client()
        await client.send(struct.pack(">i", len(head)) + head)
        assert await client.closed_by_server()
        assert [line in record.message for record in caplog.records] == [True]


async def test_unknown_version_of_api_versions_is_answered_in_v0(serve, wire):
    """ApiVersions in a version we do not know: body of v0 with error 35 and the range of key 18 (KIP-511)."""
    edge = await serve(wire.versions_api(lambda context, request: wire.VersionsResponse(error_code=0)))
    client = await edge.client()
    garbage = b"\xff" * 30
    head = struct.pack(">hhih", 18, 77, 5, -1) + garbage
    await client.send(struct.pack(">i", len(head)) + head)
    assert (await client.receive()).tobytes() == struct.pack(">ihihhh", 5, 35, 1, 18, 0, 4)
    assert (await client.ask(wire.VersionsRequest(), wire.VersionsResponse, 0)).error_code == 0


async def test_api_versions_answers_always_carry_response_header_v0(serve, wire):
    """A flexible ApiVersions answer has no tag section in its header."""
    edge = await serve(wire.versions_api(lambda context, request: wire.VersionsResponse(error_code=0)))
    client = await edge.client()
    await client.send(client.frame(wire.VersionsRequest(), 3))
    assert (await client.receive()).tobytes() == struct.pack(">ihb", 1, 0, 0)


def test_advertised_versions_come_from_the_rows(wire):
    """Each row announces what it serves; a row may announce an earlier first version (KAFKA-18659)."""
    rows = [wire.versions_api(wire.echo), wire.echo_api(versions=(1, 2), advertised_since=0)]
    dispatcher = Dispatcher(None, reversed(rows), metrics=Metrics(), monotonic=lambda: 0.0)
    assert dispatcher.advertised() == [(18, 0, 4), (1000, 0, 2)]
    with pytest.raises(ValueError, match="registered twice"):
        Dispatcher(None, [*rows, rows[0]], metrics=Metrics(), monotonic=lambda: 0.0)


async def test_versions_only_advertised_are_refused(serve, wire, caplog):
    """A version that is announced for old clients' sake but not served closes the connection."""
    edge = await serve(wire.echo_api(versions=(1, 2), advertised_since=0))
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text=""), 0))
    assert await client.closed_by_server()
    assert "served from v1 to v2" in caplog.text


class Denier:
    """Permits every operation but one, and remembers what it was asked."""

    def __init__(self, denied):
        self.asked = []
        self._denied = denied

    def permitted(self, principal, host, resource, name):
        self.asked.append((principal, host, resource, name))
        return ~(1 << self._denied)


async def test_rows_on_the_cluster_are_authorised_before_the_handler(serve, wire):
    """A denied cluster operation never reaches its handler; the answer is CLUSTER_AUTHORIZATION_FAILED."""
    called = []
    denier = Denier(Operation.ALTER)
    row = wire.echo_api(
        lambda context, request: called.append(1), operation=Operation.ALTER, resource=ResourceType.CLUSTER
    )
    edge = await serve(row, authorizer=denier)
    client = await edge.client()
    assert (await client.ask(wire.EchoRequest(text=""), wire.EchoResponse)).error_code == 31
    assert not called
    assert denier.asked == [("User:ANONYMOUS", "127.0.0.1", ResourceType.CLUSTER, "kafka-cluster")]


async def test_handlers_ask_about_names_with_the_operation_of_their_row(serve, wire):
    """``context.allows(name)`` is the row's operation and resource on that name; of a view, on the topic it shows."""
    denier = Denier(Operation.WRITE)
    row = wire.echo_api(
        lambda context, request: wire.EchoResponse(error_code=int(context.allows("orders@cut"))),
        operation=Operation.WRITE,
        resource=ResourceType.TOPIC,
    )
    broker = SimpleNamespace(views=SimpleNamespace(access_name=lambda name: name.split("@")[0]))
    edge = await serve(row, authorizer=denier, broker=broker)
    client = await edge.client()
    assert (await client.ask(wire.EchoRequest(text=""), wire.EchoResponse)).error_code == 0
    assert denier.asked == [("User:ANONYMOUS", "127.0.0.1", ResourceType.TOPIC, "orders")]


async def test_requests_errors_and_times_are_counted_by_api_and_version(serve, wire):
    """Each row has its own figures."""

    def handle(context, request):
        if request.action:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return wire.EchoResponse(error_code=0)

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    await client.ask(wire.EchoRequest(text=""), wire.EchoResponse, 1)
    await client.ask(wire.EchoRequest(text="", action=1), wire.EchoResponse, 1)
    figures = edge.metrics.apis["Echo", 1]
    assert (figures.requests, figures.errors, sum(figures.time_buckets)) == (2, 1, 2)
    assert edge.metrics.apis["Echo", 0].requests == 0


async def test_client_id_belongs_to_each_request(serve, wire):
    """The client id in the context is that of the request, also when it changes on one connection or is null."""
    edge = await serve(
        wire.echo_api(lambda context, request: wire.EchoResponse(error_code=0, text=repr(context.client_id)))
    )
    client = await edge.client()
    seen = []
    for client.client_id in ("one", "zwölf", None, "", "one"):
        seen.append((await client.ask(wire.EchoRequest(text=""), wire.EchoResponse, 2)).text)
    assert seen == ["'one'", "'zwölf'", "None", "''", "'one'"]


async def test_answering_twice_is_an_error_and_after_the_end_nothing(serve, wire, until):
    """The second answer to a request raises; an answer to a client that has gone is dropped."""
    contexts = []

    def handle(context, request):
        contexts.append(context)
        return PENDING

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    await client.send(*(client.frame(wire.EchoRequest(text="")) for _ in range(2)))
    await until(lambda: len(contexts) == 2)
    contexts[0].respond(wire.EchoResponse(error_code=0))
    with pytest.raises(RuntimeError, match="answered twice"):
        contexts[0].respond(wire.EchoResponse(error_code=0))
    abandoned = []
    contexts[1].on_abandon = lambda: abandoned.append(1)
    client.close()
    await until(lambda: abandoned)
    contexts[1].respond(wire.EchoResponse(error_code=0))
    assert contexts[1].parts == []


class Elsewhere:
    """A forwarding that notes the frames it takes, and answers with fixed bytes."""

    def __init__(self, *, takes=True):
        self.takes = takes
        self.frames = []

    def forward(self, context, frame):
        self.frames.append(bytes(frame))
        if self.takes:
            context.relay(b"\0\0\0\0" + b"\0\0" + b"\0\2hi")
        return self.takes


async def test_a_forwarded_row_relays_the_answer_of_another_node(serve, wire):
    """The frame goes out as it came in; the answer gets the client's correlation id, and is counted."""
    edge = await serve(wire.echo_api(lambda *_: pytest.fail("handled here"), forwarded=True))
    forwarding = Elsewhere()
    edge.dispatcher.forward_by(forwarding)
    client = await edge.client()
    frame = client.frame(wire.EchoRequest(text="x"))
    await client.send(frame)
    assert await client.answer(wire.EchoResponse) == (1, wire.EchoResponse(error_code=0, text="hi"))
    assert forwarding.frames == [frame[4:]]
    assert edge.metrics.api("Echo", 0).requests == 1


async def test_a_forwarded_row_is_handled_here_while_the_controller_is_here(serve, wire):
    """The forwarding is asked, and takes nothing."""
    edge = await serve(wire.echo_api(forwarded=True))
    edge.dispatcher.forward_by(Elsewhere(takes=False))
    client = await edge.client()
    assert (await client.ask(wire.EchoRequest(text="x"), wire.EchoResponse)).text == "x"


@pytest.mark.parametrize("options", [{}, {"forwarded": True, "handled_first": True}])
async def test_other_rows_do_not_ask_the_forwarding(serve, wire, options):
    """Those that brokers answer, and those whose handlers forward by themselves."""
    edge = await serve(wire.echo_api(**options))
    forwarding = Elsewhere()
    edge.dispatcher.forward_by(forwarding)
    client = await edge.client()
    assert (await client.ask(wire.EchoRequest(text="x"), wire.EchoResponse)).text == "x"
    assert forwarding.frames == []


def calls_of(dispatcher, source, frame):
    """The Python functions called while one request is dispatched."""
    called = []

    def note(frame, event, _argument):
        if event == "call":
            called.append(frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname") else frame.f_code.co_name)

    sys.setprofile(note)
    try:
        dispatcher.dispatch(source, memoryview(frame))
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize("in_cluster", [False, True], ids=["alone", "in a cluster"])
def test_a_request_that_is_not_forwarded_costs_no_call_more(wire, in_cluster):
    """As many as before there was a forwarding, and the same in a cluster."""
    dispatcher = Dispatcher(None, [wire.echo_api()], metrics=Metrics(), monotonic=lambda: 0.0)
    if in_cluster:
        dispatcher.forward_by(Elsewhere())
    source = SimpleNamespace(
        authenticated=True,
        client_id="c",
        client_id_bytes=b"c",
        elements_max=10,
        tags_max=10,
        read_at=0.0,
        quota=None,
        answer=lambda context, parts: None,
    )
    body = encode_bytes(wire.EchoRequest(text="x"), 0)
    frame = b"".join(encode_request(wire.EchoRequest.api_key, 0, 1, "c", [body], flexible=False))[4:]
    calls_of(dispatcher, source, frame)
    called = [name.rpartition(".")[2] for name in calls_of(dispatcher, source, frame)]
    assert {"dispatch", "echo", "answer", "count"} <= set(called)
    assert len(called) == CALLS
