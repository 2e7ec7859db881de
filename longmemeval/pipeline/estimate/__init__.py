"""What calls will take before any is made: what the estimates of all verbs share. Each verb has its `estimate.py`."""
