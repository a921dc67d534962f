"""Reads pgbench's report."""

import re

from lookahead.errors import LabError, last_lines


def parse_pgbench(output: str) -> tuple[int, float]:
    """(transactions, transactions per second without connecting); LabError when not reported."""
    transactions = re.search(r"^number of transactions actually processed: (\d+)", output, re.M)
    tps = re.search(r"^tps = ([0-9.]+) \(without initial connection time\)", output, re.M)
    failed = re.search(r"^number of failed transactions: (\d+)", output, re.M)
    if not transactions or not tps or int(transactions[1]) == 0 or (failed and int(failed[1])):
        raise LabError(f"pgbench reports no clean run:\n{last_lines(output)}")
    return int(transactions[1]), float(tps[1])
