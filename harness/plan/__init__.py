"""Launch plans: foreign host code runs once without a GPU and leaves data; a trusted process replays the data."""
