//! Look-up of names and OIDs in any case.
