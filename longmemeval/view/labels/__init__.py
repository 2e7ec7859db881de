"""Labels that people give on the pages: what is asked next, who said what, how far they agree with the judges."""
