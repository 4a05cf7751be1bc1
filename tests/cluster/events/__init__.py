"""Events and nudges."""
