"""`check_structure`: whether an output space or a decoder keeps to the contract."""
