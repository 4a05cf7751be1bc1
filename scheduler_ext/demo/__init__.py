"""A sample cluster and 15 pods for it, the data of `scheduler-ext demo`."""
