//! Arrow's objects as Python's capsules: <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>. The consumer moves the
//! structure out of its capsule and frees it. Otherwise the capsule frees it.

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::Schema;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failure::Failure;

/// `arrow_array_stream`
pub fn stream(py: Python<'_>, batches: impl RecordBatchReader + Send + 'static) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
}

/// `arrow_schema`
pub fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| Failure::Refused(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}
