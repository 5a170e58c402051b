"""Clients with batteries, which harvest and charge."""
