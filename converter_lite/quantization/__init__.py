"""What is quantized and how: parameters, plans, and the algorithms that make them."""
