"""Whatever copies or kills a cluster in the middle of an index build, no index is damaged by it.

`--rounds N` sets the length and `--seed N` the seed (printed); a failure names the round, which
LOOKAHEAD_ROUND in the environment runs alone, and tells what had happened in it.
"""

import os

import pytest
from server_log import ServerFactory

from backups.campaign import Round, Tally, Tools
from lookahead.extension import Stage

# Of the builds that are to be halted; the others end before it comes to that.
_HALTED_SHARE = 0.3


@pytest.mark.timeout(7200)
@pytest.mark.expects_in_log("was terminated by signal 9")
# Core's, see test_crash.py of index_build.
@pytest.mark.expects_in_log('failed Assert("!IsTransactionOrTransactionBlock()"), File: "')
def test_no_copy_is_damaged(
    server_factory: ServerFactory, stage: Stage, test_stage: Stage, seed: int, rounds: int
) -> None:
    alone = os.environ.get("LOOKAHEAD_ROUND")
    tools, tally = Tools(server_factory, stage, test_stage), Tally()
    for number in [int(alone)] if alone else range(rounds):
        Round(tools, seed, number, tally).run()
    print(f"seed {seed}: {tally}")
    if not alone:
        assert tally.built > 0
        assert tally.halted >= _HALTED_SHARE * tally.events.total()
