"""kbench as tasks of inspect_ai."""
