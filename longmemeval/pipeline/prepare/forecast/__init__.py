"""What preparing would take: calls, time, disk."""
