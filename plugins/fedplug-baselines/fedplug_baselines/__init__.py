"""Compression methods of the literature for fedplug, used as ``fedplug.encoder("eden(2)")`` and so on.

This file imports nothing, so that listing plugins stays cheap.
"""
