"""The presets: the memory configurations that need no package and no code of the user's."""
