"""Problems, tasks, metrics, surrogates and evaluation, with the shipped dataset."""
