"""The product on a laptop: a sample cluster and a dozen pods, through the real server."""
