"""A mirror of `scheduler_ext/`, whose small folders are tested beside their parent. Modules here that are no
tests are oracles, strategies and builders that several folders use."""
