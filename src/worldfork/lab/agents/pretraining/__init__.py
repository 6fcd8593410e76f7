"""Pretraining in worlds without drift: what is the same for every agent that is trained here."""
