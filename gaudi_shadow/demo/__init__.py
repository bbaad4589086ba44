"""`gaudi-shadow demo`, and the stand-in release that it and the tests use."""
