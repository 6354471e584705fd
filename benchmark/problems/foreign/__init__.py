"""Problems from elsewhere: users' files and published tasks."""
