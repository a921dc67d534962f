"""The commands, one file each, in the order of work: run, check, report."""
