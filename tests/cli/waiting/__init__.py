"""Commands about waiting pods."""
