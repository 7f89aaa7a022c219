"""What is wanted: words, rules and sums. Pure: no input or output, no clock, no chance."""
