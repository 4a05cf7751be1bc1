"""HTTP/1.1 and TLS on one listener."""
