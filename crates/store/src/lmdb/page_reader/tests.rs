//! Tests that compare the page reader with LMDB, and tests of the page reader on pages that LMDB would not write.

mod damage;
mod leaf;
mod leaf_traversal;
mod lookup;
