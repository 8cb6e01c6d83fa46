//! Link files (`.isl`) and names of tablespaces in logs over arbitrary bytes: no panic, and in a copy nothing that leads out of it.
#![no_main]

use std::path::Component;

use recovery::fuzzed_outside;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [stays, moved_in] = fuzzed_outside(input);
    if let Some(path) = &stays {
        assert!(!path.components().any(|part| part == Component::ParentDir), "{path:?}");
    }
    if let Some(path) = moved_in {
        assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?} leads out of the copy");
        assert!(stays.is_some(), "{path:?}: a name that a copy has and its original has not");
    }
});
