"""The static site: one page with everything embedded, and every number as JSON beside it."""
