"""The commands, one file each, in the order of work: probe, run, check, report."""
