"""What `lookahead doctor` says of what it found; without a server."""

from dataclasses import replace

import pytest

from lookahead.device.disk import disks_of
from lookahead.doctor import Server, judge
from lookahead.doctor_line import Tablespace

_GB = 2**30
_SERVER = Server(
    version="18.6",
    in_recovery=False,
    database="shop",
    role="dba",
    database_bytes=100 * _GB,
    shared_buffers=8 * _GB,
    effective_cache_size=24 * _GB,
    settings={
        "shared_preload_libraries": "other, pg_lookahead",
        "session_preload_libraries": "",
        "io_method": "worker",
    },
    loaded="0.2.0",
    has_extension=True,
)


def _said(server: Server) -> list[str]:
    return [f"{line.level}: {line.text}" for line in judge(server)]


def test_the_order_of_libraries_is_shown() -> None:
    assert "ok: pg_lookahead 0.2.0, by shared_preload_libraries (other, pg_lookahead)" in (
        _said(_SERVER)
    )
    both = replace(
        _SERVER, settings={**_SERVER.settings, "session_preload_libraries": '"pg_lookahead"'}
    )
    assert "note: shared_preload_libraries suffices" in _said(both)
    path = {"shared_preload_libraries": "/usr/lib/pg_lookahead.so"}
    named = replace(_SERVER, settings={**_SERVER.settings, **path})
    assert "ok: pg_lookahead 0.2.0, by shared_preload_libraries (/usr/lib/pg_lookahead.so)" in (
        _said(named)
    )


def test_libraries_that_were_loaded_before() -> None:
    """Those that look at commands keep a COPY from going in batches."""
    watched = replace(_SERVER, watchers=("pg_stat_statements", "pgaudit"))
    assert any(line.startswith("warning: COPY is left") for line in _said(_with_inserts(watched)))
    for other in (watched, _with_inserts(_SERVER)):  # inserts are off, or nobody looks
        assert not any("COPY" in line for line in _said(other))


def test_one_that_insists_on_being_first() -> None:
    """With another library before Citus the server does not start."""
    watched = _with_inserts(replace(_SERVER, watchers=("citus", "pg_stat_statements")))
    (line,) = (line for line in judge(watched) if "COPY" in line.text)
    assert "insists on being first" in line.remedy
    assert "name pg_lookahead first" not in line.remedy


def test_an_extension_of_another_version() -> None:
    lines = list(judge(replace(_SERVER, extension="0.1.0", closed="column x does not exist")))
    (at,) = (
        number for number, line in enumerate(lines) if "is 0.1.0, the library 0.2.0" in line.text
    )
    assert lines[at].remedy.startswith("ALTER EXTENSION pg_lookahead UPDATE, or install")
    assert lines[at + 1].text.endswith("is not known here: column x does not exist")
    assert not any("the library" in line for line in _said(replace(_SERVER, extension="0.2.0")))


_OFF = "pg_lookahead.enabled"


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        ("user", f'ALTER ROLE "dba" RESET {_OFF}; for sessions that begin later.'),
        ("database", f'ALTER DATABASE "shop" RESET {_OFF}; for'),
        ("database user", f'ALTER ROLE "dba" IN DATABASE "shop" RESET {_OFF}; for'),
        ("global", f"ALTER ROLE ALL RESET {_OFF}; for"),
        ("configuration file", f"ALTER SYSTEM RESET {_OFF}, or take its line out of postgresql"),
        ("command line", f"The server was started with -c {_OFF}: start"),
        (None, f"RESET {_OFF}, where it was set"),
    ],
)
def test_what_takes_a_setting_away(source: str | None, remedy: str) -> None:
    settings = {**_SERVER.settings, _OFF: "off"}
    server = replace(_SERVER, settings=settings, sources={_OFF: source} if source else {})
    for in_recovery in (False, True):
        lines = judge(replace(server, in_recovery=in_recovery))
        (found,) = (line.remedy for line in lines if line.text == f"{_OFF} is off")
        is_replicated = in_recovery and remedy.startswith(("ALTER ROLE", "ALTER DATABASE"))
        where = "On the primary: " if is_replicated else ""
        assert found.startswith(f"If that is not wanted: {where}{remedy}")


def _with_inserts(server: Server) -> Server:
    return replace(server, settings={**server.settings, "pg_lookahead.enable_bulk_insert": "on"})


def test_settings_that_fight_each_other() -> None:
    settings = {
        **_SERVER.settings,
        "pg_lookahead.enable_bulk_insert": "on",
        "pg_lookahead.bulk_extend_size": "0",
        "pg_lookahead.enable_index_build": "on",
        "max_parallel_maintenance_workers": "0",
        "pg_lookahead.disable": "on",
        "pg_lookahead.enabled": "off",
    }
    said = " ".join(_said(replace(_SERVER, settings=settings)))
    assert "warning: inserts in batches are on, and bulk_extend_size = 0 leaves" in said
    assert "warning: index builds are left to PostgreSQL: max_parallel" in said
    assert "warning: pg_lookahead.disable is on" in said
    assert said.count("pg_lookahead.enabled is off") == 1


def _served(*, in_recovery: bool = False, hindrance: str | None = None, **settings: str) -> str:
    """What is served besides index scans; bitmap scans are not, where something hinders them."""
    known = {"pg_lookahead.enabled": "on", "pg_lookahead.disable": "off", **_SERVER.settings}
    for name in ("join_prefetch", "index_build", "bulk_insert"):
        known[f"pg_lookahead.enable_{name}"] = settings.pop(name, "on")
    known["max_parallel_maintenance_workers"] = settings.pop("workers", "2")
    known |= {f"pg_lookahead.{name}": value for name, value in settings.items()}
    scans = {"index scans": None} | ({"bitmap scans": hindrance} if hindrance else {})
    server = replace(_SERVER, settings=known, scans=scans, in_recovery=in_recovery)
    (text,) = (text for text in _said(server) if " serves " in text)
    return text.removeprefix("ok: pg_lookahead serves index scans")


def test_what_is_served_besides_scans() -> None:
    assert _served() == ", nested loops, index builds, inserts"
    assert _served(join_prefetch="off") == ", index builds, inserts"
    assert _served(workers="0", bulk_insert="off") == ", nested loops"
    assert _served(enabled="off") == _served(disable="on") == ""
    assert _served(in_recovery=True) == ", nested loops"
    assert _served(hindrance="direct I/O") == ", index builds, inserts"


@pytest.mark.parametrize(
    ("size_gb", "words"),
    [(4, "fits into shared_buffers"), (20, "fits into effective_cache_size"), (100, "is larger")],
)
def test_memory_against_data(size_gb: int, words: str) -> None:
    said = " ".join(_said(replace(_SERVER, database_bytes=size_gb * _GB)))
    assert words in said
    assert "memory" not in said  # the server does not tell


def test_reasons_and_devices() -> None:
    server = replace(
        _SERVER,
        in_recovery=True,
        loaded="0.1.0",
        scans={"index scans": "self-check"},
        fallbacks={
            "copy (cluster)": {"other extension": 12_000, "system catalog": 1},
            "index_build (cluster)": {"system catalog": 2},
        },
        since="2026-11-28 10:00",
        tablespaces=(
            Tablespace("fast", "259:0", "id", None),
            Tablespace("slow", None, None, "no profile of this device"),
        ),
    )
    said = _said(server)
    assert said[0].startswith("ok: PostgreSQL 18.6, standby, database shop (100 GB), role dba")
    assert "note: this lookahead is 0.2.0, the library 0.1.0" in said
    assert "warning: index scans are left to PostgreSQL: self-check" in said
    assert "note: fell back since 2026-11-28 10:00, copy (cluster): other extension 12,000" in said
    assert not any("system catalog" in text for text in said)
    assert "ok: tablespace fast: device 259:0, profile id" in said
    assert any("slow: no device to be seen; no profile: no profile of" in line for line in said)
    assert "note: OS read-ahead and kind of these devices are not known from here" in said


def test_an_extension_comes_to_a_standby_from_its_primary() -> None:
    for in_recovery in (False, True):
        lines = judge(replace(_SERVER, in_recovery=in_recovery, has_extension=False))
        (remedy,) = (one.remedy for one in lines if one.remedy.startswith("CREATE EXTENSION"))
        assert remedy.endswith("on the primary.") == in_recovery


def test_policies_that_nobody_obeys() -> None:
    (line,) = (one for one in judge(replace(_SERVER, policies=2)) if "policy" in one.text)
    assert line.text.startswith("2 tables have an interval policy, which nobody obeys unless")
    assert "maintenance_interval = '1min' does that" in line.remedy
    settings = {**_SERVER.settings, "pg_lookahead.maintenance_interval": "1min"}
    told = [one.remedy for one in judge(replace(_SERVER, policies=2, settings=settings))]
    assert any("is 1min: is pg_lookahead in shared_preload" in remedy for remedy in told)
    for quiet in (_SERVER, replace(_SERVER, policies=2, in_recovery=True)):
        assert not any("policy" in text for text in _said(quiet))


def test_policies_from_a_dump() -> None:
    settings = {**_SERVER.settings, "pg_lookahead.maintenance_interval": "1min"}
    server = replace(_SERVER, policies=3, automatic=1, settings=settings)
    assert [text for text in _said(server) if "polic" in text] == [
        "ok: 3 tables have an interval policy, looked after every 1min",
        "note: 2 of the policies came with a dump or a copy of a database, and wait for a first "
        "call of pg_lookahead_maintain_partitions()",
    ]
    assert not any("dump" in text for text in _said(replace(server, automatic=3)))


def test_another_major_release() -> None:
    (_, line) = judge(replace(_SERVER, version="17.4"))
    assert line.text == "pg_lookahead needs PostgreSQL 18"


def test_a_file_system_without_a_device() -> None:
    place = (Tablespace("pg_default", "0:45", "id", None),)
    said = _said(replace(_SERVER, tablespaces=place, disks=disks_of(["0:45"])))
    assert said[-1] == "note: OS read-ahead and kind of device 0:45 are not known"


@pytest.mark.parametrize(
    ("place", "text", "remedy"),
    [
        (("8:0", "id", None), "ok: tablespace a b: device 8:0, profile id", ""),
        (("8:0", None, None), "ok: tablespace a b: device 8:0, profile of a name", ""),
        (("8:0", "id", "the file is gone"), "no profile: the file is gone", "when it is ignored."),
        (("8:0", None, "x is empty"), "no profile: x is empty", "--tablespace 'a b' --profile"),
        ((None, None, "x is empty"), "no device to be seen; no profile", "when it is ignored."),
        (("0:45", None, "x is empty"), "no profile: x is empty", "when it is ignored."),
    ],
)
def test_profiles(place: tuple[str | None, ...], text: str, remedy: str) -> None:
    server = replace(_SERVER, tablespaces=(Tablespace("a b", *place),))
    (line,) = (line for line in judge(server) if line.text.startswith("tablespace "))
    assert text in f"{line.level}: {line.text}"
    assert remedy in line.remedy
