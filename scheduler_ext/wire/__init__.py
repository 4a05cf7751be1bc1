"""Bytes to core values and back: in the kernel, all that knows msgspec and the spelling of JSON."""
