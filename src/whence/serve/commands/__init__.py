"""The commands of `whence`, one file for each family. Light at import: heavy things are imported when one runs."""
