"""The ops of `fedplug.ops` on device arrays, one module for each of theirs; imported when one comes."""
