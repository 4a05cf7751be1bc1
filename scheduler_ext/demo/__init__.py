"""A sample cluster and a dozen pods for it, the data of `scheduler-ext demo`."""
