"""Chapter 7: no device has the whole network; one file for each way to split it."""
