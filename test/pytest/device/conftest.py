"""The compiled parser, once for all modules."""

import pytest

from device.compiled_parser import Parser, load_parser
from lookahead.installation import Installation


@pytest.fixture(scope="session")
def parser(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Parser:
    return load_parser(installation, tmp_path_factory.mktemp("profile"))
