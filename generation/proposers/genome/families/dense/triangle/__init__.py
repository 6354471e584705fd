"""The triangle multiplicative update: normalise and project, multiply, project back."""
