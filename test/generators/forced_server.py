"""A server on which every look-ahead is forced, for statements that other programs generate."""

import re
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from evidence import sum_counters
from modes import forced_settings, server_settings
from runs import Target
from server_log import forbidden_lines
from suites import make_folder

from lookahead.server import PrivateServer

# Whatever happens, an error of ours is none of theirs.
_OWN_ERROR = re.compile(r"(ERROR|FATAL): .*pg_lookahead")
_COUNTERS = ("scans", "bitmap_scans", "seq_scans", "builds")


@dataclass
class Campaign:
    """A server that runs, and once it has been stopped what its logs show.

    `evidence` is what the library did since the last call of `count_from_here()`.
    """

    server: PrivateServer
    port: int
    counter_file: Path
    before: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    evidence: str = ""

    def count_from_here(self) -> None:
        """Leave out what sessions that have ended did so far."""
        self.before = sum_counters(self.counter_file)

    def judge(self, forced: bool) -> None:
        """Look at logs and counters of the stopped server."""
        log = self.server.read_log()
        self.findings += forbidden_lines(log)
        self.findings += [line for line in log.splitlines() if _OWN_ERROR.search(line)]
        sums = sum_counters(self.counter_file)
        grown = {name: sums[name] - self.before[name] for name in _COUNTERS}
        self.evidence = " ".join(f"{name}={count}" for name, count in grown.items())
        if forced and not (grown["scans"] and grown["seq_scans"]):
            self.findings.append("the library did not run")


@contextmanager
def campaign_on(
    target: Target, seed: int, *, forced: bool = True, network: bool = False
) -> Iterator[Campaign]:
    """Start a server of `target`, stock's without `forced`; stopped and judged at the end.

    `seed` draws the forced settings. That no scan was ours is a finding. With `network` the server
    listens on a port of this machine, too.
    """
    stage = target.stage if forced else None
    settings = {**server_settings(), **(_network_settings() if network else {})}
    with PrivateServer(target.installation, stage=stage, settings=settings) as server:
        server.initdb()
        counter_file = make_folder(server, "evidence") / "counters"
        server.start(forced_settings(Random(seed), str(counter_file)) if forced else {})
        campaign = Campaign(server, int(settings.get("port", server.port)), counter_file)
        yield campaign
        server.stop()
        campaign.judge(forced)


def _network_settings() -> dict[str, str]:
    # The port is free a moment before it is used: another program may be quicker, and then the
    # server does not start.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return {"listen_addresses": "127.0.0.1", "port": str(probe.getsockname()[1])}
