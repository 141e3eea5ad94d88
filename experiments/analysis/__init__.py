"""Analyses that read result files and trained models."""
