"""Folders of a store on the network (S3, Google Cloud, Azure), and their local copies."""
