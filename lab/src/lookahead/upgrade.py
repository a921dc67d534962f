"""Result files of earlier versions, turned into the newest one step by step.

All of it works on parsed JSON, as it was in the file. What a version did not record is left out or
zero; comparisons are left out too, since they follow from the samples. Names of arms, settings and
factors stand here as they were, whatever experiments call them later.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from lookahead.decoding import decode
from lookahead.device.counters import Timeline

Json = dict[str, Any]
_BLOCK_BYTES = 8192
_PAGE_SCAN_PLANS = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
_Arms = Mapping[str, tuple[str, str, str, Mapping[str, str]]]
"""By the name in the file: name, library, plan and settings."""
_SCAN_ARMS: _Arms = {
    "stock": ("stock", "off", "Index Scan", _PAGE_SCAN_PLANS),
    "lookahead": ("ours", "on", "Index Scan", _PAGE_SCAN_PLANS),
    "bitmap": (
        "bitmap and sort",
        "off",
        "Bitmap Heap Scan",
        {"enable_seqscan": "off", "enable_indexscan": "off", "work_mem": "256MB"},
    ),
}
_BUILD_ARMS: _Arms = {"stock": ("stock", "off", "", {}), "lookahead": ("ours", "on", "", {})}
_CONTROL_ARMS: _Arms = {name: (name, name, "", {}) for name in ("not loaded", "off", "on")}


def upgrade(value: Json, newest: int) -> Json:
    """The document as version `newest` has it; one of a later version as it is.

    Raises KeyError, TypeError or ValueError for a document that is damaged, or of no version.
    """
    version = value["schema_version"]
    if type(version) is not int or version < 1:
        raise ValueError(f"there is no schema version {version!r}")
    for number in range(version, newest):
        value = _STEPS[number](value)
    return {**value, "schema_version": max(version, newest)}


def _from_1(value: Json) -> Json:
    """Version 2 has the pattern in scenarios, the method of controls, what was asked ahead."""
    method = value["settings"].get("io_method", "worker")
    scans, controls = value["index_scan"], value["controls"]
    if controls:
        samples = [{**one, "io_method": method} for one in controls["samples"]]
        unknown = {"io_method": method, "shared_read_blocks": 0, "resident_share": None}
        evidence = [{**one, **unknown} for one in controls["evidence"]]
        controls = {**controls, "samples": samples, "evidence": evidence}
    return {
        **value,
        "parameters": {"limits": [], "heap_shares_percent": [], **value["parameters"]},
        "index_scan": scans and _scans_from_1(scans),
        "controls": controls,
        "delay_device": None,
        "index_build": None,
    }


def _scans_from_1(data: Json) -> Json:
    plain = {"order": "random", "limit": None, "share_percent": None, "added_latency_us": 0}
    samples = [
        {**_with_requests(one), "scenario": {**plain, **one["scenario"]}} for one in data["samples"]
    ]
    # A digest stood for the first read-ahead that was measured.
    first: dict[tuple[int, str], Json] = {}
    for one in samples:
        scenario = one["scenario"]
        first.setdefault((scenario["pages"], scenario["io_method"]), scenario)
    digests = [
        {**one, "scenario": first[one["pages"], one["io_method"]]} for one in data["digests"]
    ]
    return {**data, "samples": samples, "digests": digests}


def _with_requests(sample: Json) -> Json:
    evidence = sample["evidence"]
    counts = dict.fromkeys(("requests", "advised_blocks", "bridged_blocks", "pauses"), 0)
    ours = {**counts, **evidence["lookahead"]}
    return {**sample, "evidence": {**evidence, "lookahead": ours}}


def _from_3(value: Json) -> Json:
    """Version 4 times executions of controls, where pgbench had counted transactions."""
    controls = value["controls"]
    if controls:
        samples = [
            {
                **one,
                "round": one["alternation"],
                "executions": one["transactions"],
                "elapsed_ms": one["transactions"] / one["tps"] * 1000,
                "cold": None,
            }
            for one in controls["samples"]
        ]
        evidence = [{**one, "node_types": [one["node_type"]]} for one in controls["evidence"]]
        controls = {**controls, "samples": samples, "evidence": evidence}
    return {**value, "controls": controls}


def _from_4(value: Json) -> Json:
    """Version 5 has trials only; options and facts by name."""
    old = value["parameters"]
    options = {
        "pages": old["pages"],
        "limit": old["limits"],
        "share": old["heap_shares_percent"],
        "io-method": old["io_methods"],
        "read-ahead": [f"{size_kb}kB" for size_kb in old["read_aheads_kb"]],
    }
    values = {name: chosen for name, chosen in options.items() if chosen}
    known = {name: old[name] for name in ("size", "seed", "repetitions")}
    delay = value["delay_device"]
    return {
        **value,
        "parameters": {**known, "values": values},
        "facts": _delay_facts(delay) if delay else {},
        "measurements": _measurements_of(value),
    }


def _delay_facts(delay: Json) -> Json:
    return {
        "added latency": f"{delay['latency_us']} us on each read, content in memory",
        "reads at once": f"{delay['single_reads_per_s']:,.0f} reads/s one at a time, "
        f"{delay['deep_reads_per_s']:,.0f} with {delay['depth']} in flight ({delay['engine']})",
    }


def _measurements_of(value: Json) -> Json:
    for name, converted in (
        ("index_scan", _scans),
        ("controls", _controls),
        ("index_build", _builds),
    ):
        if value[name]:
            return converted(value[name])
    return {**(value["trials"] or {}), "comparisons": []}


def _scans(data: Json) -> Json:
    table = data["table"]
    samples = [_scan_sample(one) for one in data["samples"]]
    return {
        "tables": [{"name": "lookahead_scan", **table}] if table else [],
        **_asked(samples, _SCAN_ARMS, "ours"),
        "digests": [
            {
                "scenario": _scan_scenario(one["scenario"]),
                "arms": ["stock", "ours"],
                "ordered": True,
                "rows": one["rows"],
                "sha256": one["sha256"],
            }
            for one in data["digests"]
        ],
        "samples": samples,
    }


def _scan_scenario(old: Json) -> Json:
    read_ahead = old["read_ahead_kb"]
    if old["limit"] is not None:
        pattern = f"LIMIT {old['limit']:,}"
    elif old["share_percent"] is not None:
        pattern = f"{old['share_percent']} % in heap order"
    else:
        pattern = f"{old['pages']:,} pages"
    latency = old["added_latency_us"]
    return _scenario(
        {
            "scan": pattern,
            "I/O method": old["io_method"],
            "read-ahead": "unknown" if read_ahead is None else f"{read_ahead} kB",
            **({"added latency": f"{latency:,} us"} if latency else {}),
        }
    )


def _scan_sample(old: Json) -> Json:
    evidence, time_ms = old["evidence"], old["evidence"]["execution_ms"]
    absent = ("removed_rows", "exact_blocks", "lossy_blocks", "workers")
    return {
        "scenario": _scan_scenario(old["scenario"]),
        "round": old["pair"],
        "sequence": old["sequence"],
        "arm": _SCAN_ARMS[old["arm"]][0],
        "time_ms": time_ms,
        "session_ms": [time_ms],
        "evidence": {**dict.fromkeys(absent, 0), **evidence},
        "backend_cpu_ms": old["backend_cpu_ms"],
        "cold": old["cold"],
        "use": asdict(decode(Timeline, old["timeline"], "timeline").overall()),
        "timeline": old["timeline"],
        "counts": {name: old[name] for name in ("first_key", "last_key", "distinct_pages")},
    }


def _controls(data: Json) -> Json:
    samples = []
    for one in data["samples"]:
        time_ms = one["elapsed_ms"] / one["executions"]
        samples.append(
            {
                "scenario": _control_scenario(one),
                "round": one["round"],
                "sequence": one["sequence"],
                "arm": one["arm"],
                "time_ms": time_ms,
                "session_ms": [time_ms],
                "executions": one["executions"],
                "cold": one["cold"],
            }
        )
    return {
        **_asked(samples, _CONTROL_ARMS, "on"),
        "checks": [
            {"scenario": _control_scenario(one), "facts": _control_facts(one)}
            for one in data["evidence"]
        ],
        "samples": samples,
    }


def _control_scenario(old: Json) -> Json:
    return _scenario({"workload": old["workload"], "I/O method": old["io_method"]})


def _control_facts(evidence: Json) -> Json:
    share = evidence["resident_share"]
    return {
        "plan": ", ".join(evidence["node_types"]) or "none",
        "attached in": ", ".join(evidence["attached_arms"]) or "none",
        "blocks read": f"{evidence['shared_read_blocks']:,}",
        **({} if share is None else {"in the OS cache": f"{share:.1%}"}),
    }


def _builds(data: Json) -> Json:
    samples = [_build_sample(one) for one in data["samples"]]
    tables = [
        {**table, "pages": table["table_bytes"] // _BLOCK_BYTES, "index_bytes": 0}
        for table in data["tables"]
    ]
    return {"tables": tables, **_asked(samples, _BUILD_ARMS, "ours"), "samples": samples}


def _build_sample(old: Json) -> Json:
    scenario = old["scenario"]
    names = ("built_by_us", "wal_bytes", "index_bytes", "workers_seen", "peak_memory_bytes")
    counts = {name: old[name] for name in names if old[name] is not None}
    return {
        "scenario": _scenario(
            {
                "key": scenario["key"],
                "workers": str(scenario["workers"]),
                "memory": f"{scenario['memory_mb']} MB",
                "step": f"{scenario['extend_kb']} kB",
                "rows": f"{scenario['rows']:,}",
            }
        ),
        "round": old["pair"],
        "sequence": old["sequence"],
        "arm": _BUILD_ARMS[old["arm"]][0],
        "time_ms": old["time_ms"],
        "session_ms": [old["time_ms"]],
        "counts": {**counts, "allowed_memory_bytes": scenario["memory_mb"] * 1024 * 1024},
        "phases_ms": {phase["name"]: phase["time_ms"] for phase in old["phases"]},
        "sha256": old["pages_sha256"],
    }


def _scenario(factors: Mapping[str, str]) -> Json:
    return {"factors": [{"name": name, "value": value} for name, value in factors.items()]}


def _asked(samples: Iterable[Json], arms: _Arms, ours: str) -> Json:
    """The arms that were measured, and in each scenario ours against each other one."""
    order = [name for name, *_ in arms.values()]
    scenarios: dict[str, tuple[Json, set[str]]] = {}
    for sample in samples:
        found = scenarios.setdefault(repr(sample["scenario"]), (sample["scenario"], set()))
        found[1].add(sample["arm"])
    measured = {name for _, names in scenarios.values() for name in names}
    return {
        "arms": [
            {"name": name, "library": library, "plan": plan, "settings": dict(settings)}
            for name, library, plan, settings in arms.values()
            if name in measured
        ],
        "questions": [
            {"scenario": scenario, "name": name, "baselines": [name], "challengers": [ours]}
            for scenario, names in scenarios.values()
            for name in order
            if name in names and name != ours
        ],
        "references": [],
        "digests": [],
        "lookups": [],
        "comparisons": [],
    }


_STEPS: dict[int, Callable[[Json], Json]] = {
    1: _from_1,
    2: lambda value: {**value, "trials": None},  # version 3 has trials beside the others
    3: _from_3,
    4: _from_4,
}
