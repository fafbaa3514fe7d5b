"""Pure functions on tables and arrays: no Dagster, no network, no clock, no environment."""
