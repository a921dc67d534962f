"""What the extension does to a running server, beside giving the same rows."""
