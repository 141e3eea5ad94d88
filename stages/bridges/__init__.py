"""Bridge generators: learn from cuts where two parts are joined, and by what."""
