"""Forward proxies side by side: see README.md in the folder above."""
