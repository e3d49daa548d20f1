"""Raw parsing alone, the floor: `parse.py FILE` decodes each line with orjson and keeps nothing."""

import sys

import orjson


def main() -> None:
    with open(sys.argv[1], "rb") as file:
        for line in file:
            orjson.loads(line)


if __name__ == "__main__":
    main()
