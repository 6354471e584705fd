"""The largest values of a row: repeated maxima, sorting, private lists, radix or threshold selection."""
