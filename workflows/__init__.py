"""Ready-to-run workflow files that ship with the package."""
