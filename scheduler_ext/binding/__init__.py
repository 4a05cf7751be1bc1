"""Binding a pod: devices are reserved, the intent is written to the cluster, and the Binding is posted. Apart
from `extender`, because only this verb writes, and only installations with shares use it. `locked_cache` is
here because a bind decides and reserves under the lock of the cache; every followed cluster passes through
it."""
