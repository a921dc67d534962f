"""Where `make` builds the extension, and the one line that says what is missing for that."""

import os
import subprocess
from pathlib import Path

import pytest

from lookahead.installation import Installation

_CHECKOUT = Path(__file__).resolve().parents[3]


def _make(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    # An outer make (this test run by `make test`) would hand its own variables down.
    dropped = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PG_CONFIG", "LA_TEST", "CC", "WERROR")
    env = {name: value for name, value in os.environ.items() if name not in dropped}
    env["PATH"] = path or env["PATH"]
    command = ["/usr/bin/make", "-s", "-C", str(_CHECKOUT), *arguments]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=120
    )


def _fake_pg_config(folder: Path, answer: str) -> Path:
    program = folder / "pg_config"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    return program


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of the error; make itself adds which target failed."""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert done.returncode != 0
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_wrong_major(tmp_path: Path) -> None:
    pg_config = _fake_pg_config(tmp_path, "PostgreSQL 17.2")
    assert _complaint(_make("all", f"PG_CONFIG={pg_config}")) == (
        f"error: {pg_config} belongs to PostgreSQL 17.2, pg_lookahead needs PostgreSQL 18 "
        "(hint: give PG_CONFIG=/path/to/18/bin/pg_config)"
    )


def test_missing_pg_config(tmp_path: Path) -> None:
    line = _complaint(_make("all", f"PG_CONFIG={tmp_path}/pg_config"))
    assert line.startswith(f'error: pg_config was not found at "{tmp_path}/pg_config"')
    assert "postgresql-server-dev-18" in line


def test_missing_server_headers(tmp_path: Path) -> None:
    pg_config = _fake_pg_config(tmp_path, "PostgreSQL 18.6")
    line = _complaint(_make("all", f"PG_CONFIG={pg_config}"))
    assert line.startswith(f"error: the server headers of {pg_config} are missing")
    assert "postgresql-server-dev-18" in line


def test_missing_compiler(installation: Installation) -> None:
    line = _complaint(_make("all", f"PG_CONFIG={installation.pg_config}", "CC=no-such-compiler"))
    assert line == ("error: no-such-compiler was not found (hint: install the Debian package gcc)")


def test_missing_headers_of_icu(tmp_path: Path) -> None:
    (tmp_path / "pg_config.h").write_text("#define USE_ICU 1\n")
    (tmp_path / "postgres.h").touch()
    pg_config = _fake_pg_config(tmp_path, "")
    pg_config.write_text(
        "#!/bin/sh\ncase $1 in --version) echo PostgreSQL 18.6 ;; --cppflags) ;;\n"
        f"--includedir-server) echo {tmp_path} ;; *) echo {pg_config} ;; esac\n"
    )
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\n! grep -q unicode\n")
    compiler.chmod(0o755)
    line = _complaint(_make("all", f"PG_CONFIG={pg_config}", f"CC={compiler}"))
    assert line.startswith(f"error: {compiler} finds no <unicode/ucol.h>")
    assert "libicu-dev" in line


def test_bare_make_lists_the_targets_without_a_server(tmp_path: Path) -> None:
    done = _make(f"PG_CONFIG={tmp_path}/pg_config")
    assert done.returncode == 0
    assert done.stdout.startswith("No PostgreSQL 18 server files were found: build with make ")
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    for target in ("demo", "test", "lint", "format", "bench", "check-core", "soak"):
        assert target in listed


@pytest.mark.parametrize("option", [(), ("LA_TEST=1",)])
def test_stage_prints_only_its_folder(installation: Installation, option: tuple[str, ...]) -> None:
    done = _make("stage", f"PG_CONFIG={installation.pg_config}", *option)
    assert done.returncode == 0, done.stderr
    stage = Path(done.stdout.rstrip("\n"))
    assert (stage / "lib" / "pg_lookahead.so").is_file()
    assert (stage / "share" / "extension" / "pg_lookahead.control").is_file()


def _make_in(folder: Path, *arguments: str) -> str:
    """What a packager's make, in a folder of its own, would do."""
    makefile = _CHECKOUT / "Makefile"
    done = _make("-n", "-C", str(folder), "-f", str(makefile), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_folder_is_the_build_folder(installation: Installation, tmp_path: Path) -> None:
    """As pg_buildext does it: VPATH, CFLAGS of the distribution, DESTDIR."""
    given = (f"PG_CONFIG={installation.pg_config}", f"VPATH={_CHECKOUT}")
    built = _make_in(tmp_path, "all", *given, "CFLAGS=-fpackaged")
    compiled = [line for line in built.splitlines() if " -c -o src/" in line]
    assert len(compiled) == len(list((_CHECKOUT / "src").rglob("*.c")))
    assert all("-fwrapv" in line and "-fpackaged" in line for line in compiled)
    assert "-Werror" not in built
    assert "-Werror" in _make_in(tmp_path, "all", *given, "WERROR=1")
    installed = _make_in(tmp_path, "install", *given, "DESTDIR=/packaged", "pkglibdir=/of/ours")
    assert "'/packaged/of/ours/pg_lookahead.so'" in installed


def test_variables_reach_the_build_folder(installation: Installation, tmp_path: Path) -> None:
    """A make in the checkout hands over all that its command line sets; a DESTDIR is its own."""
    done = _make(
        "-n",
        "install",
        f"PG_CONFIG={installation.pg_config}",
        f"BUILD_DIR={tmp_path}/build",
        "DESTDIR=packaged",
        "pkglibdir=/of/ours",
        "CFLAGS=-fpackaged",
    )
    assert done.returncode == 0, done.stderr
    assert f"'{_CHECKOUT}/packaged/of/ours/pg_lookahead.so'" in done.stderr
    assert "-fpackaged" in done.stderr
