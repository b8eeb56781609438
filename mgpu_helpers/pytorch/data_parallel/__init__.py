"""Chapter 5: every device has the whole network, and a shard of each batch."""
