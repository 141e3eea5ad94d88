"""FeatX: graphs and nodes whose non-causal features go beyond those of training."""

FEATX_DEFAULTS = {
    "featx_features": "selected",
    "featx_direction": "extrapolate",
    "featx_shape": 2.0,
    "featx_scale": 0.5,
    "featx_rounds": 1,
    "featx_partner": "node",
    "featx_ends": "around",
}
"""What manifests leave out where it was not asked for otherwise."""
