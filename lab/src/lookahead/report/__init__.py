"""The report: one self-contained HTML page, made from result files and nothing else."""
