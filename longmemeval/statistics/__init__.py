"""Statistics for what figures can support: intervals, paired tests, power, agreement and spread."""
