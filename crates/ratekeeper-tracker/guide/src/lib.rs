#![doc = include_str!("../../../../docs/tracker.md")]
