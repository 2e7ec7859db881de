"""What every other package uses: files and journals, locks, caches, secrets, text, workers, stores on the network."""
