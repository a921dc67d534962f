"""Commit subjects, and paths of somebody's machine in what is committed."""

import re
from pathlib import Path

from findings import Checkout, Outcome, run

_SUBJECT_LIMIT = 64  # characters
_COMMITS_CHECKED = 30  # arbitrary: what a branch usually adds

# Folders of a person or of one machine. The temporary directory itself may be named, as a default,
# but nothing below it (names of one or two letters pass as examples).
_MACHINE_PATH = re.compile(r"(?<![\w.}$)])/(home|root|work|farm|Users|tmp)/[A-Za-z][\w.-]{2,}")
_BINARY = {".png", ".ico", ".gz", ".woff2"}
# Words that only one clone wants to keep out, one regular expression per line; not part of the
# project, so that they do not stand in it either.
_OWN_WORDS = "lint-words"


def check_subjects(checkout: Checkout) -> Outcome:
    """Subjects of the latest commits: short, capitalised, without a period."""
    log = run(["git", "log", f"-{_COMMITS_CHECKED}", "--no-merges", "--format=%h %s"], checkout.top)
    if log.returncode != 0:
        return Outcome(skipped="no commits here")
    findings = []
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > _SUBJECT_LIMIT:
            findings.append(f"{commit}: {len(subject)} characters: {subject}")
        if subject.endswith("."):
            findings.append(f"{commit}: ends with a period: {subject}")
        if subject[:1].islower():
            findings.append(f"{commit}: starts in lower case: {subject}")
    return Outcome(tuple(findings))


def check_machine_paths(checkout: Checkout) -> Outcome:
    """No path of one machine, and none of this clone's own forbidden words."""
    patterns = [_MACHINE_PATH, *_own_words(checkout)]
    findings = []
    for path in checkout.files:
        if path.suffix in _BINARY:
            continue
        for number, line in enumerate(checkout.text(path).splitlines(), 1):
            found = [match[0] for pattern in patterns for match in pattern.finditer(line)]
            findings += [f"{path}:{number}: {words}" for words in found]
    return Outcome(tuple(findings))


def _own_words(checkout: Checkout) -> list[re.Pattern[str]]:
    found = run(["git", "rev-parse", "--git-path", f"info/{_OWN_WORDS}"], checkout.top)
    file = checkout.top / Path(found.stdout.strip())
    if found.returncode != 0 or not file.is_file():
        return []
    lines = [line.strip() for line in file.read_text().splitlines()]
    return [re.compile(line, re.IGNORECASE) for line in lines if line]
