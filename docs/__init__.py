"""The documentation; `generate` writes the parts of it that follow from the code."""
