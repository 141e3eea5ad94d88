"""Code behind ``results/``: suites of runs, one runner, and analyses of their result files."""
