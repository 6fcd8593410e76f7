"""Tools beside a study: checks, costs, trials, pretraining, calibration, videos."""
