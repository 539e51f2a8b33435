"""New weights for running vLLM servers, as exact differences between versions.

A trainer uses `fedplug_vllm.trainer`, and vLLM finds `fedplug_vllm.server` by its plugin entry point. The
other modules need no vLLM: `fedplug_vllm.publisher` writes versions, and `fedplug_vllm.staging` reads them.
"""
