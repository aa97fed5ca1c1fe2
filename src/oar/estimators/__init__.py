"""MODELS THAT OTHERS WROTE: scikit-learn's estimators as twins that can be differentiated, and black boxes."""
