"""The last step of an estimator, the part that predicts, as a model that can be differentiated."""
