//! `bench`: what this machine can do, and what each of innokit's ways of moving and judging bytes brings on it.

pub mod counting;
pub mod kernels;
