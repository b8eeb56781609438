"""Chapter 7: no device has the whole network; a file for each way to share it."""
