"""The list of mutants names text and tests that exist."""

import importlib
import sys

from findings import Checkout, Outcome


def check_mutants(checkout: Checkout) -> Outcome:
    """Each mutant's text occurs once in its file, and its test is there."""
    folder = checkout.top / "test/mutants"
    sys.path.insert(0, str(folder))
    try:
        catalogue = importlib.import_module("catalogue")
    finally:
        sys.path.remove(str(folder))
    try:
        mutants = catalogue.read_mutants()
    except ValueError as error:
        return Outcome((str(error),))
    return Outcome(tuple(catalogue.find_errors(mutants, checkout.top)))
