"""The client that awaits. The client that blocks, in _sync, is generated from this package by tools/sync.py.

Only concurrency.py is written twice: what the two do by different means is there, under the same names.
"""
