"""`python -m oar` is the command `oar`."""

from oar.cli import main

if __name__ == "__main__":
    main()
