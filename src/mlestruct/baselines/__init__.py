"""What the paper compares with, under the same decoders and the same manners."""
