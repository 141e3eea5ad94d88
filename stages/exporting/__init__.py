"""Corpora in the layouts other people's tools read; one file per layout."""
