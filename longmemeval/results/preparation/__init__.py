"""What preparing left behind: its journal, and what it cost each run."""
