"""Importers: measured kernels in other people's formats, one file a format. None of them guesses."""
