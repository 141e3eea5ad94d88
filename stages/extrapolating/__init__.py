"""FeatX: graphs and nodes whose non-causal features go beyond those of training."""
