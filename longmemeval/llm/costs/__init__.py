"""What calls cost, and the receipts of what was paid."""
