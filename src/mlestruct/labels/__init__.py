"""Reading what people call an output: partners, ids, states."""
