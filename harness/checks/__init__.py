"""The checks: each looks at what a launch returned and left behind, and names what is wrong."""
