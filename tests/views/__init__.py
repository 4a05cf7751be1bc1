"""Lists and totals, beside laws about their sums."""
