"""What a pod asks for: amounts, resource names and the wishes in its annotations."""
