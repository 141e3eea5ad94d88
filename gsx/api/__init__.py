"""The Python API: one function per command, on the same engine as the command line.

``import gsx`` imports none of this. ``gsx.prepare`` and the other names load their module on first
access (``gsx/__init__.py``). Modules of this package import heavy libraries inside of functions.
"""
