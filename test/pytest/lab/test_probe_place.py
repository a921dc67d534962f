"""Where `lookahead probe` looks, as far as the account may."""

from pathlib import Path

import pytest

from lookahead.device.probe import place
from lookahead.errors import ExitStatus, LabError


def test_a_tablespace_that_this_account_may_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(place, "_ask", lambda name, dsn: ((False, False, 0), ("/srv/data/base",)))
    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(LabError, match="is not on this machine, or not accessible") as caught:
        place.tablespace_folder("pg_default", None)
    assert caught.value.status is ExitStatus.ENVIRONMENT
