"""`python -m scheduler_ext` is the command `scheduler-ext`."""

from scheduler_ext.main import main

if __name__ == "__main__":
    main()
