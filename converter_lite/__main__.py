"""``python -m converter_lite``."""

from converter_lite.cli.converter_lite import main

if __name__ == "__main__":
    main()
