"""Says what works on this machine and with a program, why something does not, and how to mend it."""
