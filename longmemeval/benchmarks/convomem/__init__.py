"""ConvoMem."""
