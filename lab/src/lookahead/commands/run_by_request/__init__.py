"""`lookahead run EXPERIMENT`: one file per experiment, and what they share."""
