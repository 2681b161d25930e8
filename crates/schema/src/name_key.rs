//! Keys of distinguished names.
