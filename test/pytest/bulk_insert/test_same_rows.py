"""Random inserts and copies into random tables do the same, whoever executes them.

`--inserts N` sets the number of rounds and `--seed N` the seed (printed); a failure names the
round, which LOOKAHEAD_ROUND in the environment runs alone, and prints a psql script of it.
"""

import os

import pytest
from server_log import WatchedServer

from bulk_insert.campaign import Round, Tally, prepare

# Of the rows that could be. The rest is inserted one by one: at first, or because a row is wide.
_BATCHED_SHARE = 0.3
_FAILED_SHARE = 0.4
# Of which nothing is said of shares: one of a thousand rows that fails decides.
_FEW_INSERTS = 12


@pytest.mark.timeout(3600)
def test_arms_do_the_same(server: WatchedServer, seed: int, inserts: int) -> None:
    alone = os.environ.get("LOOKAHEAD_ROUND")
    rounds = [int(alone)] if alone else range(inserts)
    tally = Tally()
    with server.connect() as session:
        compressions = prepare(session)
        for number in rounds:
            Round(session, compressions, seed, number, tally).run()
    print(f"seed {seed}: {tally}")
    if alone or inserts < _FEW_INSERTS:
        return
    assert tally.failed <= 2 * inserts * _FAILED_SHARE
    assert tally.batched >= tally.offered * _BATCHED_SHARE
    assert tally.extended > inserts
    # Of a few rounds, as a sample has them, all may be without.
    assert tally.copied > 0 or inserts < 20
