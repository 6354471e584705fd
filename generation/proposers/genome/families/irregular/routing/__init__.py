"""Choice of experts: top-k of the router's softmax."""
