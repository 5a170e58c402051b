"""Metrics of the predictions for the test samples: by label, of the clients themselves, and calibration."""
