"""One module a group of operations, each with a tuple FAMILIES."""
