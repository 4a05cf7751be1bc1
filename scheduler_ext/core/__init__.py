"""The decision itself: values in, values out; standard library and numpy only. Nothing here reads a clock,
takes a lock, writes a log or touches a file, so the same code serves requests, explains them offline and will
run in the simulator."""
