"""Which rows of a corpus: filters by facet, and conditions."""
