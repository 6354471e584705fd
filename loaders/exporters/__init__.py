"""Exporters: our rows in other people's formats, one file a format."""
