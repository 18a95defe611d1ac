"""The client that blocks. All but concurrency.py is generated from _async by tools/sync.py."""
