"""Random indexes over random tables are the same whoever builds them.

`--indexes N` sets the length and `--seed N` the seed (printed); a failure names the round, which
LOOKAHEAD_ROUND in the environment runs alone, and prints a psql script of it.
"""

import os

import pytest
from server_log import WatchedServer

from index_build.campaign import INDEXES_PER_ROUND, Round, prepare, rounds_of
from index_build.twins import Tally

# Of the pairs that make an index. The rest has keys of types that are left to core. In 14 runs of
# 120 pairs, each with a seed of its own, the least was 0.84, and at most 0.16 failed. Those of one
# table fail together, so that few pairs, as a sampled run has, say nothing about shares.
_BUILT_SHARE = 0.6
_FAILED_SHARE = 0.25
_PAIRS_THAT_TELL = 80


@pytest.mark.timeout(3600)
def test_both_arms_build_the_same_index(server: WatchedServer, seed: int, indexes: int) -> None:
    alone = os.environ.get("LOOKAHEAD_ROUND")
    rounds = [(int(alone), INDEXES_PER_ROUND)] if alone else rounds_of(indexes)
    tally = Tally()
    with server.connect() as builder, server.connect() as onlooker:
        sessions = prepare(builder, onlooker, server.data_directory)
        for number, count in rounds:
            Round(sessions, seed, number, tally).run(count)
    print(f"seed {seed}: {tally}")
    if alone:
        return
    if tally.pairs < _PAIRS_THAT_TELL:
        return
    assert tally.failed <= tally.pairs * _FAILED_SHARE
    assert tally.built >= (tally.pairs - tally.failed) * _BUILT_SHARE
