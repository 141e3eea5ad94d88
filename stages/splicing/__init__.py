"""Splice components into new graphs: choose them, join them, label them, account for them."""
