"""What a comparison comes to."""
