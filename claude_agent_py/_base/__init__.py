"""The helpers of all rooms: nothing here knows the protocol."""
