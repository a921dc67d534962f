"""The list of what is taken from PostgreSQL's private parts is complete, and up to date.

Without a source tree only the list itself is checked; `core-sources` compares it with the tree.
"""

from collections.abc import Iterator

import core_parts
from core_citations import READS, OurFile, find_malformed, find_uncited
from core_source import SOURCE_VARIABLE, find_source
from findings import Checkout, Outcome


def check_private_parts(checkout: Checkout) -> Outcome:
    """Every part is cited in one form and recorded, and the page is that of the comments."""
    files = core_parts.our_files(checkout.top)
    records = core_parts.Records.read(checkout.top)
    words = {word for file in files for word in file.words()}
    findings = [finding for file in files for finding in find_malformed(file)]
    findings += [finding for file in files for finding in find_uncited(file, words)]
    findings += _find_unrecorded(files, records)
    findings += _find_uncited_readers(files, records)
    page = core_parts.page(records, files)
    if core_parts.PAGE not in checkout.files or checkout.text(core_parts.PAGE) != page:
        findings.append(f"{core_parts.PAGE} is stale: run make core-parts")
    return Outcome(tuple(findings))


def check_core_sources(checkout: Checkout) -> Outcome:
    """No recorded part differs in the source tree that is at hand."""
    source = find_source(core_parts.MAJOR)
    if source is None:
        return Outcome(
            skipped=f"no source tree of PostgreSQL {core_parts.MAJOR} "
            f"(tools/build-postgres leaves one; or set {SOURCE_VARIABLE})"
        )
    files = core_parts.our_files(checkout.top)
    records = core_parts.Records.read(checkout.top)
    return Outcome(tuple(core_parts.differences(records, source, files)))


def _find_unrecorded(files: list[OurFile], records: core_parts.Records) -> Iterator[str]:
    cited = {
        core_parts.part_name(citation): citation for file in files for citation in file.citations()
    }
    for name in sorted(cited.keys() - records.parts.keys()):
        yield f"{cited[name]}: not recorded: run make core-parts READ={cited[name].name}"
    for name in sorted(records.parts.keys() - cited.keys()):
        yield f"{core_parts.RECORDS}: {name} is cited nowhere: run make core-parts"


def _find_uncited_readers(files: list[OurFile], records: core_parts.Records) -> Iterator[str]:
    """Files that name a private structure and fields of it without saying so, and the reverse."""
    for name, record in sorted(records.parts.items()):
        if not record.fields:
            continue
        structure = name.partition(" ")[2]
        for file in files:
            read = sorted(file.members() & set(record.fields))
            cites = any(
                citation.kind == READS and core_parts.part_name(citation) == name
                for citation in file.citations()
            )
            if read and file.names_structure(structure) and not cites:
                yield f'{file.path}: no "Reads {structure} of ..." for {", ".join(read)}'
            if cites and not read:
                yield f"{file.path}: reads no field of {structure}"
