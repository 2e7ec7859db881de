"""One question over several runs: what was to be found, who found it, what each answered, and why."""
