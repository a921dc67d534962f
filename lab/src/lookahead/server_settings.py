"""The settings file of a private server, the environment of its programs, how it is reached."""

import os
import re
from collections.abc import Mapping

import psycopg

from lookahead.errors import ExitStatus, LabError

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
# Variables that would make results depend on who runs the lab: libpq's and PostgreSQL's own,
# the language of messages, and where start-up files such as psqlrc are looked for.
_FOREIGN = re.compile(r"PG[A-Z]+|LC_\w+|LANG|LANGUAGE|HOME|USER|LOGNAME|XDG_\w+")
# Nobody but an impostor asks for the user's password, which libpq would take from PGPASSWORD or
# ~/.pgpass: our servers trust their socket. The option is libpq's since 16.
WITHOUT_PASSWORD = {"require_auth": "none"} if psycopg.pq.version() >= 160000 else {}


def settings_text(settings: Mapping[str, str]) -> str:
    """The text of a settings file; LabError when a name or a value cannot stand in one."""
    lines = ["# Written by lookahead at each start of the server; changes here are lost."]
    for name, value in settings.items():
        if not _NAME.fullmatch(name):
            raise LabError(f'"{name}" is not the name of a setting', status=ExitStatus.USAGE)
        if any(character in value for character in "\n\r\0"):
            raise LabError(
                f'the value of setting "{name}" contains a line break', status=ExitStatus.USAGE
            )
        # Quoted values double the quote and read a backslash as an escape.
        quoted = value.replace("\\", "\\\\").replace("'", "''")
        lines.append(f"{name} = '{quoted}'")
    return "\n".join(lines) + "\n"


def neutral_environment(home: str) -> dict[str, str]:
    """Our environment without what would leak the user's habits into the server's programs."""
    kept = {name: value for name, value in os.environ.items() if not _FOREIGN.fullmatch(name)}
    return {**kept, "HOME": home, "LC_ALL": "C"}
