"""Where a setting of a server was made, and the statement that takes it away there. Pure."""

from lookahead.formats import one_line

CONFIGURATION_FILE = "configuration file"
# Whose setting wins over the system's, by `source` of pg_settings.
_OWNERS = {
    "global": "ALTER ROLE ALL",
    "database": "ALTER DATABASE {database}",
    "user": "ALTER ROLE {role}",
    "database user": "ALTER ROLE {role} IN DATABASE {database}",
}


def quoted(name: str) -> str:
    """A name as a statement takes it, be it a word of the language."""
    return '"' + one_line(name).replace('"', '""') + '"'


def altering(source: str | None, role: str, database: str, *, in_recovery: bool = False) -> str:
    """What SET or RESET is to follow; "" for a setting that no role or database has."""
    names = {"role": quoted(role), "database": quoted(database)}
    own = _OWNERS.get(source or "", "").format(**names)
    return f"On the primary: {own}" if own and in_recovery else own


def system_reset(name: str) -> str:
    """Of a setting in one of the server's configuration files; which of them only some may see."""
    return (
        f"ALTER SYSTEM RESET {name}, or take its line out of postgresql.conf; then SELECT "
        "pg_reload_conf()"
    )


def reset_of(
    name: str, source: str | None, role: str, database: str, *, in_recovery: bool = False
) -> str:
    """How to take the setting away."""
    if own := altering(source, role, database, in_recovery=in_recovery):
        return f"{own} RESET {name}; for sessions that begin later"
    if source == CONFIGURATION_FILE:
        return system_reset(name)
    if source == "client":
        return "The connection itself sets it: see its options, or PGOPTIONS"
    if source == "command line":
        return f"The server was started with -c {name}: start it without"
    return f"RESET {name}, where it was set (session, role, database, system)"
