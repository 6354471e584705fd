"""The backward pass of layer norm: a row pass for x, a column sum for weight and bias."""
