"""Tests of the lab: pure ones, and a few that run whole commands on a server."""
