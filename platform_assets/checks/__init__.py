"""The checks, one file an asset, named as the asset is."""
