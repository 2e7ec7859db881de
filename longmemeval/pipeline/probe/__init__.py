"""What a memory does over time, tried on made-up lives: the verb `probe`."""
