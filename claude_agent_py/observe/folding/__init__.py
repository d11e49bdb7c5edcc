"""The parts of `SpanFold`, by what they fold, over the `State` that they share."""
