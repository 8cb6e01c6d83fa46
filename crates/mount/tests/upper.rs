//! An upper over a base in memory, on a simulated device that loses power.
#[test]
fn todo() {}
