"""The functions of this package on tensors; see `fedplug.ops.also_on_tensors`. Imported when one comes."""
