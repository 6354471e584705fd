"""Source-level edits of any kernel text, found in a parsed tree or token stream and checked by parsing."""
