"""Study: search methods compared at equal measurements, on recorded pools or in searches that were made."""
