"""What the families that still write their code line by line share."""
