"""Makes plain ``pytest`` certify a cluster: everything is in the plugin."""

pytest_plugins = ("fixtures.plugin",)
