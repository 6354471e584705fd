"""Queue: the parent's side, which plans kernels in sandboxes and hands them to the devices."""
