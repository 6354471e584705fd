"""Time: interleaved rounds, an interval that survives autocorrelation, a second clock."""
