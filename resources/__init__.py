"""Everything that opens a socket, a process or a file; it speaks tensors, strings and tables."""
