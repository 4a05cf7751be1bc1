"""Bytes to core values and back; the only place that knows msgspec and JSON's spelling of things."""
