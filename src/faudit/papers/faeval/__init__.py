"""The paper that faudit re-implements: What Accuracy and Gradient Cosine Miss (arXiv 2606.21126)."""
