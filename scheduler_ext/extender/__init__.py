"""One request from bytes to bytes, and the state it is answered from; no HTTP here."""
