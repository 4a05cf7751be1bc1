"""Commands in the test process: one golden output for each, exit statuses and errors. After a change of an
output, `RENEW_GOLDEN=1 make test ARGS="-k golden_one"` writes the golden files again; review the
difference."""
