"""Test memories over time, on made-up lives: the verb `probe`."""
