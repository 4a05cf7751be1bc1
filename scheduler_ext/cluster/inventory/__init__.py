"""The handlers of watched objects: each turns one kind of object into changes of the scheduler cache."""
