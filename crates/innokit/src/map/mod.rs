//! `info --map`: the picture of a tablespace. [`scene`] decides what is where; [`crate::picture`] draws it.

mod scene;

use std::error::Error;
use std::path::Path;

use inspect::FileInfo;

use crate::picture;

/// Draws the file's grid into `target`, in the format of its extension. The target is replaced in one step, once the picture is complete.
pub fn draw(file: &FileInfo, target: &Path) -> Result<(), Box<dyn Error>> {
    let (Some(space), Some(grid)) = (&file.tablespace, &file.grid) else {
        return Err("there is nothing to draw".into());
    };
    picture::replace(&scene::scene(file, space, grid), target)
}
