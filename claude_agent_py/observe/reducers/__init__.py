"""The handlers of `SpanFold` by message type. They share a `State`."""
