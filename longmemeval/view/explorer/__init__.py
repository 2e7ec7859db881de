"""The recall explorer: what a memory would recall for any question, with any settings, without a chat model."""
