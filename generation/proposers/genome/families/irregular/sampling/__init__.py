"""Draw of a token: softmax and an arg-max of probability over noise."""
