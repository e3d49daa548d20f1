"""What single runs did."""
