"""Chapter 7: no device has the whole network; there is a file for each way to split it."""
