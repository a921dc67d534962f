"""`lookahead check`: what the library would do for one statement on the user's own server."""
