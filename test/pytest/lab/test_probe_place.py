"""Where `lookahead probe` looks, as far as the account may."""

from pathlib import Path

import pytest

from lookahead.device.probe import place
from lookahead.errors import ExitStatus, LabError


def test_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(LabError, match="cannot look at") as caught:
        place.named_folder(Path())
    assert caught.value.status is ExitStatus.USAGE


def test_a_tablespace_that_this_account_may_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(place, "_ask", lambda name, dsn: ((False, False, 0), ("/srv/data/base",)))
    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(LabError, match="is not on this machine, or not accessible") as caught:
        place.tablespace_folder("pg_default", None)
    assert caught.value.status is ExitStatus.ENVIRONMENT
