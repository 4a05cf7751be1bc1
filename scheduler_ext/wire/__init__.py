"""Bytes to core values and back; the only package that uses msgspec and knows JSON spellings."""
