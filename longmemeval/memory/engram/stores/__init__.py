"""Where facts and their vectors are queried: two protocols, the embedded stores, and databases behind the same methods.

What is kept of a history is its part, or the file of an `Engram`. A store is filled from it when it is opened
(`synced`), in a namespace of its own, and can be filled again at any time.
"""
