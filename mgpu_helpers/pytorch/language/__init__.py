"""Chapter 9: a language model; tokens, long sequences and experts, a file for each."""
