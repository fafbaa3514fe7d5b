"""Other ways to embed the same texts; `encode.py` runs in the environment that `requirements.lock` describes."""
