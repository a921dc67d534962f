"""Shares of a long list, for runs that take each part in turn."""

import argparse
import re


def share_of(text: str) -> slice:
    """K/N as the slice of each Nth item from the Kth on; a type of argparse."""
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if found is None or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"{text} is not K/N with K from 1 to N")
    return slice(int(found[1]) - 1, None, int(found[2]))
