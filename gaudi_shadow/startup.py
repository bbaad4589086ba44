"""The entry point of the wheel's `.start` file (PEP 829), and of whoever installs the hook by hand.

What it names lies in `finder`: each module more costs every Python start 0.2 ms, so no other route comes by here.
"""

from gaudi_shadow.finder import ShadowFinder, install, installed_finder

__all__ = ["ShadowFinder", "install", "installed_finder"]
