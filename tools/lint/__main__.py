"""`make lint`: every check that needs no running server, one line each.

Usage: python tools/lint [--pg-config P] [--only NAME]

A check that cannot run here is skipped by name and with the reason; the exit status is 1 when any
check has findings.
"""

import argparse
import sys
from pathlib import Path

import arrows
import conventions
import documents
import history
import library
import mutants
import private_parts
import sizes
import style
from findings import Check, Checkout

CHECKS = (
    Check("c-style", style.check_c_style),
    Check("c-names", conventions.check_file_names),
    Check("c-includes", conventions.check_includes),
    Check("c-arrows", arrows.check_arrows),
    Check("lab-arrows", arrows.check_lab_arrows),
    Check("c-versions", conventions.check_versions),
    Check("private-parts", private_parts.check_private_parts),
    Check("core-sources", private_parts.check_core_sources),
    Check("sizes", sizes.check_sizes),
    Check("settings", conventions.check_settings),
    Check("links", documents.check_links),
    Check("plain-words", documents.check_plain_words),
    Check("remedies", documents.check_remedies),
    Check("test-files", conventions.check_test_files),
    Check("mutants", mutants.check_mutants),
    Check("library", library.check_library),
    Check("python-format", style.check_python_format),
    Check("python", style.check_python),
    Check("types", style.check_types),
    Check("shell", style.check_shell),
    Check("machine-paths", history.check_machine_paths),
    Check("commit-subjects", history.check_subjects),
)


def main() -> int:
    """Run the checks; 0 when none has findings."""
    parser = argparse.ArgumentParser(prog="lint", description="The project's checks.")
    parser.add_argument("--pg-config", type=Path, help="the server to build the libraries for")
    parser.add_argument("--only", choices=[check.name for check in CHECKS])
    options = parser.parse_args()
    checkout = Checkout(Path(__file__).resolve().parents[2], options.pg_config)
    failed = 0
    for check in CHECKS:
        if options.only in (None, check.name):
            failed += not _report(check, checkout)
    print(f"lint: {failed} of {len(CHECKS)} checks failed" if failed else "lint: clean")
    return 1 if failed else 0


def _report(check: Check, checkout: Checkout) -> bool:
    outcome = check.run(checkout)
    if outcome.skipped:
        print(f"{check.name:<16} skipped: {outcome.skipped}")
        return True
    print(f"{check.name:<16} {'FAILED' if outcome.findings else 'ok'}")
    for finding in outcome.findings:
        print(f"  {finding}")
    return not outcome.findings


if __name__ == "__main__":
    sys.exit(main())
