"""Where the command `whence` starts. What it needs beyond the library comes with extras, and is named when missing."""

from __future__ import annotations

import sys

# module -> the extra that brings it
_EXTRAS = {
    "typer": "cli",
    "yaml": "cli",
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "pandas",
    "psycopg": "postgres",
    "openlineage": "openlineage",
    "apache_atlas": "atlas",
    "confluent_kafka": "kafka",
}


def main() -> None:
    try:
        from whence.serve.cli import main

        main()
    except ModuleNotFoundError as missing:
        module = (missing.name or "").split(".")[0]
        if module not in _EXTRAS:
            raise
        wanted = f"pip install 'whence[{_EXTRAS[module]}]'"
        print(f"whence: this needs {module}, which is not installed here: {wanted}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
