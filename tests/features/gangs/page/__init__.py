"""The queue on the live page, in a browser."""
