"""`judge check`: what a judge does with answers whose truth is known."""
