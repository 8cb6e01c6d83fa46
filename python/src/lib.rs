//! The native half of the Python package `innokit`.
//!
//! ```text
//! open(path) -> Database -> Table -> scan() -> Scan -> __arrow_c_stream__ -> Batches (Arrow's C interface) <- a thread: inspect::rows -> arrow
//!                                 -> splits() -> Split (pickled, on another machine) -> scan()
//! check(paths) -> Report -> __arrow_c_stream__
//! python -m innokit -> innokit::run, the command line
//! ```
//!
//! Work runs on separate threads without the GIL; the calling thread waits and checks for Ctrl-C (`wait.rs`). Nothing starts before
//! it is needed, because programs such as Spark fork.

mod arguments;
mod capsule;
mod check;
mod command;
mod database;
mod failure;
mod loss;
mod notebook;
mod scan;
mod schema;
mod seen;
mod split;
mod storage;
mod stream;
mod wait;

use pyo3::prelude::*;

#[pymodule]
fn _innokit(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<database::Database>()?;
    module.add_class::<database::Table>()?;
    module.add_class::<scan::Scan>()?;
    module.add_class::<split::Split>()?;
    module.add_class::<schema::Schema>()?;
    module.add_class::<schema::Field>()?;
    module.add_class::<check::Report>()?;
    module.add_function(wrap_pyfunction!(database::open, module)?)?;
    module.add_function(wrap_pyfunction!(split::split_from_state, module)?)?;
    module.add_function(wrap_pyfunction!(check::check, module)?)?;
    module.add_function(wrap_pyfunction!(command::run, module)?)?;
    module.add_function(wrap_pyfunction!(storage::is_url, module)?)?;
    module.add_function(wrap_pyfunction!(storage::bytes_below, module)?)?;
    module.add_function(wrap_pyfunction!(command::panicking_run, module)?)?;
    module.add_function(wrap_pyfunction!(stream::panicking_stream, module)?)?;
    module.add_function(wrap_pyfunction!(loss::wait_for_losses, module)?)?;
    module.add_function(wrap_pyfunction!(wait::panicking_job, module)?)?;
    Ok(())
}
