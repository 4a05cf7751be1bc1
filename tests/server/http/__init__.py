"""HTTP/1.1, deadlines, bounds and TLS, on a server without the product."""
