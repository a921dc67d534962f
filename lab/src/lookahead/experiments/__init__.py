"""The experiments of `lookahead run`: what each measures, how, and what it proves on the way."""
