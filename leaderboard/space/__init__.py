"""A Space for the Hugging Face Hub: the site, and a check of submissions before they are sent."""
