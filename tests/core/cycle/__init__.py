"""One decision as a whole."""
