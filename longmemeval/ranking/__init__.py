"""Ranked lists over stored messages: lexical, dense, fused; time ranges."""
