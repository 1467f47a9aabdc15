from stratalog.broker.send_turns import LARGE_BYTES, PIECE_BYTES, PIECE_BYTES_MAX, SendTurns


class Loop:
    """Runs what was to be called soon, a turn at a time."""

    def __init__(self):
        self.soon = []

    def call_soon(self, call):
        self.soon.append(call)

    def turn(self):
        calls, self.soon = self.soon, []
        for call in calls:
            call()


class Reader:
    """Has so much to send, and remembers how much it might send each time."""

    def __init__(self, turns, left):
        self.turns, self.left, self.allowed = turns, left, []

    def take_turn(self, size_bytes):
        self.allowed.append(size_bytes)
        self.left -= min(self.left, size_bytes)
        if self.left:
            self.turns.wait(self)


def disturbed(turns):
    """A small answer was sent a moment ago."""
    turns.small_count += 1
    assert turns.at_once() == 0


def test_with_nobody_else_a_large_answer_leaves_at_once_and_whole():
    """Nothing is cut up for nobody."""
    turns = SendTurns(Loop())
    assert turns.at_once() == PIECE_BYTES_MAX
    assert not len(turns)


def test_after_a_small_answer_a_large_one_waits_and_leaves_in_pieces():
    """A piece of it is what the next small answer has to wait for at most."""
    loop = Loop()
    turns = SendTurns(loop)
    disturbed(turns)
    reader = Reader(turns, 3 * PIECE_BYTES)
    turns.wait(reader)
    for _ in range(3):
        loop.turn()
    assert reader.allowed == [PIECE_BYTES] * 3
    assert not loop.soon


def test_turns_of_the_loop_with_small_answers_are_passed_but_not_for_ever():
    """Small answers go first; a reader of large ones gets on all the same."""
    loop = Loop()
    turns = SendTurns(loop)
    disturbed(turns)
    reader = Reader(turns, 2 * PIECE_BYTES)
    turns.wait(reader)
    passed = []
    while reader.left:
        turns.small_count += 1
        before = len(reader.allowed)
        loop.turn()
        passed.append(len(reader.allowed) == before)
    assert passed == ([True] * 8 + [False]) * 2


def test_those_who_wait_get_their_turns_one_after_the_other():
    """One piece in a turn of the loop, whoever it belongs to."""
    loop = Loop()
    turns = SendTurns(loop)
    disturbed(turns)
    readers = [Reader(turns, 2 * PIECE_BYTES) for _ in range(3)]
    for reader in readers:
        turns.wait(reader)
    assert len(turns) == 3
    counts = []
    for _ in range(6):
        loop.turn()
        counts.append([len(reader.allowed) for reader in readers])
    assert counts == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1], [2, 2, 1], [2, 2, 2]]


def test_without_small_answers_pieces_are_large_again_after_a_while():
    """A loop with nothing but large answers does not spend its time on cutting them."""
    loop = Loop()
    turns = SendTurns(loop)
    disturbed(turns)
    reader = Reader(turns, 20 * PIECE_BYTES_MAX)
    turns.wait(reader)
    while reader.left:
        loop.turn()
    assert set(reader.allowed) == {PIECE_BYTES, PIECE_BYTES_MAX}
    assert reader.allowed == sorted(reader.allowed)
    assert turns.at_once() == PIECE_BYTES_MAX


def test_whoever_comes_while_others_wait_waits_behind_them():
    """Nobody passes the queue."""
    loop = Loop()
    turns = SendTurns(loop)
    turns.wait(Reader(turns, LARGE_BYTES))
    assert turns.at_once() == 0
