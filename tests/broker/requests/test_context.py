import asyncio

from stratalog.broker.requests.dispatch import PENDING
from stratalog.wire.errors import ErrorCode, KafkaError


async def test_a_context_gives_the_handler_the_caller_and_its_request(serve, wire):
    """Version, correlation id, client id, connection and the broker are at hand."""
    seen = []

    def handle(context, request):
        seen.append(
            (context.broker, context.api_version, context.correlation_id, context.client_id, context.connection.host)
        )
        return wire.EchoResponse(error_code=0)

    edge = await serve(wire.echo_api(handle), broker="the node")
    client = await edge.client()
    await client.ask(wire.EchoRequest(text=""), wire.EchoResponse, 1)
    assert seen == [("the node", 1, 1, "tester", "127.0.0.1")]


async def test_a_parked_request_keeps_its_own_client_id(serve, wire, until):
    """A later request with another client id on the same connection does not change an earlier context."""
    contexts = []

    def handle(context, request):
        contexts.append(context)
        return PENDING

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    frames = []
    for client.client_id in ("first", "second"):
        frames.append(client.frame(wire.EchoRequest(text="")))
    await client.send(*frames)
    await until(lambda: len(contexts) == 2)
    assert [context.client_id for context in contexts] == ["first", "second"]


async def test_failing_later_maps_errors_like_raising(serve, wire, until, caplog):
    """``fail`` on a parked context answers Kafka errors with their code and anything else with -1 and a log entry."""
    contexts = []

    def handle(context, request):
        contexts.append(context)
        return PENDING

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    await client.send(*(client.frame(wire.EchoRequest(text="")) for _ in range(2)))
    await until(lambda: len(contexts) == 2)
    contexts[0].fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    contexts[1].fail(ZeroDivisionError("a bug"))
    assert [(await client.answer(wire.EchoResponse))[1].error_code for _ in range(2)] == [6, -1]
    assert "a bug" in caplog.text


async def test_a_client_that_goes_away_cancels_its_coroutine(serve, wire, until):
    """Slow work for a connection that has ended is stopped."""
    ended = []

    async def slow():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(1)
            raise

    edge = await serve(wire.echo_api(lambda context, request: context.run(slow())))
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="")))
    await until(lambda: any(connection.parked for connection in edge.server.connections))
    await asyncio.sleep(0)
    client.close()
    await until(lambda: ended)


async def test_a_cancelled_coroutine_closes_the_connection(serve, wire, until):
    """A request whose work is cancelled has no answer; the client is not left waiting."""
    edge = await serve(wire.echo_api(lambda context, request: context.run(asyncio.sleep(60))))
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="")))
    await until(lambda: any(connection.parked for connection in edge.server.connections))
    await edge.dispatcher.close()
    assert await client.closed_by_server()


async def test_an_answer_in_slices_stays_in_order_and_lets_others_pass(serve, wire):
    """An answer of many turns delays the later answers of its own connection, and none of another one."""
    open_gate = []

    def handle(context, request):
        def steps():
            while request.action and not open_gate:
                yield
            return wire.EchoResponse(error_code=0, text=request.text)

        return context.sliced(steps())

    edge = await serve(wire.echo_api(handle))
    slow, quick = await edge.client(), await edge.client()
    await slow.send(*(slow.frame(wire.EchoRequest(text=text, action=1), 1) for text in "abc"))
    assert (await quick.ask(wire.EchoRequest(text="q"), wire.EchoResponse, 1)).text == "q"
    [held] = [one for one in edge.server.connections if one.stalled]
    assert held.parked == 1, "the second request is not begun before the first is answered"
    open_gate.append(True)
    assert [(await slow.answer(wire.EchoResponse, 1))[1].text for _ in range(3)] == ["a", "b", "c"]


async def test_a_client_that_hangs_up_ends_its_slices(serve, wire, until):
    """Also one that has sent more requests, which are not read while the first one is worked on."""
    steps_done, ended = [], []

    def handle(context, request):
        def steps():
            try:
                while True:
                    steps_done.append(1)
                    yield
            finally:
                ended.append(request.text)

        return context.sliced(steps())

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    await client.send(*(client.frame(wire.EchoRequest(text=text), 1) for text in "ab"))
    await until(lambda: steps_done)
    assert len(edge.server._services.hang_ups) == 1, "it is watched at once, not at the next sweep"
    client.close()
    await until(lambda: ended)
    await until(lambda: not edge.server.connections)
    assert ended == ["a"]


async def test_slices_that_fail_answer_as_handlers_do(serve, wire, caplog):
    """Kafka's errors with their code, anything else with -1 and an entry in the log."""

    def handle(context, request):
        def steps():
            yield
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER) if request.action else ZeroDivisionError("a bug")

        return context.sliced(steps())

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    found = [await client.ask(wire.EchoRequest(text="", action=action), wire.EchoResponse, 1) for action in (1, 0)]
    assert [one.error_code for one in found] == [6, -1]
    assert "a bug" in caplog.text


async def test_a_coroutine_may_leave_the_answer_to_steps(serve, wire):
    """First it waits for something, then the answer is made in slices."""

    def handle(context, request):
        def steps():
            yield
            return wire.EchoResponse(error_code=0, text=request.text)

        async def work():
            await asyncio.sleep(0)
            return steps()

        return context.run(work())

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    assert (await client.ask(wire.EchoRequest(text="x"), wire.EchoResponse, 1)).text == "x"
