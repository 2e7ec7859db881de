"""Folders of a store on the network (S3, Google Cloud, Azure), and what is kept of them on this machine."""
