"""The sensors, one file each, named as the UI names them."""
