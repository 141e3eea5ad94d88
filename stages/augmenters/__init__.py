"""Augmentations that gsx is compared with: graphs with parts dropped or masked, and mixed ones."""
