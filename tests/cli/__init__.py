"""Commands in the test process: one golden output for each, exit statuses and errors."""
