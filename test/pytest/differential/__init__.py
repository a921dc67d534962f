"""Random statements, run with look-ahead off and on, must give the same answer."""
