"""The ops of `fedplug.ops` on device arrays, in modules of the same names."""
