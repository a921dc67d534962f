"""tools/build-postgres: its options, what it takes for a finished server, whose make it runs."""

import os
import subprocess
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "build-postgres"


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(_SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def _make_server(prefix: Path, programs: tuple[str, ...] = ("pg_config", "postgres")) -> Path:
    """A stand-in for an installed server."""
    (prefix / "bin").mkdir(parents=True)
    for name in programs:
        program = prefix / "bin" / name
        program.write_text("#!/bin/sh\necho PostgreSQL 18.6\n")
        program.chmod(0o755)
    return prefix / "bin" / "pg_config"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--bogus"], "unknown option --bogus"),
        (["--segsize-blocks"], '--segsize-blocks needs a positive number, not ""'),
        (["--segsize-blocks", "0"], '--segsize-blocks needs a positive number, not "0"'),
        (["--major", "eighteen"], '--major needs a positive number, not "eighteen"'),
        (["--release", "--sanitize"], "--release and --sanitize exclude each other"),
        (["one", "two"], 'one DIR at most, not "one two"'),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], complaint: str) -> None:
    done = _run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {complaint} (hint: ")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ([], "pg18-assert-icu"),
        (["--release"], "pg18-release-icu"),
        (["--sanitize"], "pg18-sanitize-icu"),
        (["--segsize-blocks", "6"], "pg18-assert-icu-seg6"),
    ],
)
def test_each_kind_has_a_name_of_its_own(arguments: list[str], name: str) -> None:
    done = _run("--print-name", *arguments)
    assert (done.returncode, done.stdout) == (0, f"{name}\n")


def test_a_standing_server_is_reused(tmp_path: Path) -> None:
    pg_config = _make_server(tmp_path / "pg18-assert-icu")
    done = _run(tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{pg_config}\n")


def test_a_server_under_the_plain_name_is_accepted_and_named(tmp_path: Path) -> None:
    pg_config = _make_server(tmp_path / "pg18-release")
    done = _run("--release", tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{pg_config}\n")
    assert "lacks ICU" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    done = _run(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: cannot write to {tmp_path} (hint: ")


def test_a_folder_that_others_can_change_is_refused(tmp_path: Path) -> None:
    _make_server(tmp_path / "pg18-assert-icu")
    tmp_path.chmod(0o777)
    done = _run(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: another user can change what stands in {tmp_path}")
    assert done.stdout == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    """It has a name that everybody knows, and root would run what stands there."""
    _make_server(tmp_path / "pg18-assert-icu")
    os.chown(tmp_path, 65534, 65534)
    done = _run(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: another user can change what stands in {tmp_path}")


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = _run(tmp_path / "file" / "servers")
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot write to ")


# What configure of a stand-in for PostgreSQL's source writes: a Makefile that, as PostgreSQL's,
# generates headers at the first level only, and fails without them.
_CONFIGURE = """#!/bin/sh
mkdir -p contrib src/test/isolation src/test/modules/injection_points
for folder in . contrib src/test/isolation src/test/modules/injection_points; do
cat >$folder/Makefile <<'END'
all:
\ttest "$(MAKELEVEL)" = 0
install: all
\tmkdir -p $(DESTDIR)PREFIX/bin
\tfor name in pg_config postgres; do printf '#!/bin/sh\\n' >$(DESTDIR)PREFIX/bin/$$name; done
\tchmod 755 $(DESTDIR)PREFIX/bin/*
END
sed -i "s|PREFIX|${1#--prefix=}|" $folder/Makefile
done
"""


def test_a_build_within_make_is_at_the_first_level(tmp_path: Path) -> None:
    """The targets of the Makefile build the server they need, on a machine that has none."""
    servers, programs = tmp_path / "servers", tmp_path / "programs"
    (servers / "postgresql-18.99").mkdir(parents=True)
    programs.mkdir()
    for path, text in (
        (servers / "postgresql-18.99" / "configure", _CONFIGURE),
        # No package is missing.
        (programs / "dpkg-query", "#!/bin/sh\necho install ok installed\n"),
    ):
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "Makefile").write_text(f"server:\n\t@+{_SCRIPT} --release {servers}\n")
    done = subprocess.run(
        ["make", "--no-print-directory", "-j2", "-C", str(tmp_path), "server"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{servers}/pg18-release-icu/bin/pg_config\n"
