"""What some tests need and not every machine has: they are skipped by name without it."""

import shutil

import pytest

needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
