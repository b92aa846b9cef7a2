"""For every test: what tests of pytest plugins need."""

pytest_plugins = ("pytester",)
