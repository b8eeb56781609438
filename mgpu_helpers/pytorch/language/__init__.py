"""Chapter 9: a language model, with a file each for tokens, long sequences and experts."""
