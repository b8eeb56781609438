"""Chapter 5: every device has the whole network, and a part of each batch."""
