"""Default values of the FeatX options, shared by ``generate`` and ``report``."""

FEATX_DEFAULTS = {
    "featx_features": "selected",
    "featx_direction": "extrapolate",
    "featx_shape": 2.0,
    "featx_scale": 0.5,
    "featx_rounds": 1,
    "featx_partner": "node",
    "featx_ends": "around",
}
"""Options that manifests leave out if they have these values."""
