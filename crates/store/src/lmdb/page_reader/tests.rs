//! The page reader compared with LMDB, and run on pages that LMDB would not write.

mod damage;
mod leaf;
mod leaf_traversal;
mod lookup;
