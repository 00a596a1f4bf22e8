"""`python -m bayesgram` is `bayesgram`."""

from bayesgram.cli import main

if __name__ == "__main__":
    main()
