"""Everything that knows what feedback is: domain, assets, checks, sensors, definitions, commands."""
