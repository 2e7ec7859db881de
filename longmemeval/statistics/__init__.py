"""What figures are worth: intervals, tests of pairs, power, agreement and spread."""
