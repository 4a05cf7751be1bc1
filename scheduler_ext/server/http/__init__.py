"""HTTP/1.1 and TLS on one listener, with total deadlines and bounds on connections and bytes, which
gunicorn's own workers lack."""
