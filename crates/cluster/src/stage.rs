//! Unfinished generation: a folder with the data of a new generation, and with the log message that begins the
//! generation. The folder is created before the message is appended, and removed when the node has installed the data.

use std::path::Path;

use crate::error::ClusterError;

/// Folder of an unfinished generation, in the data directory.
pub const STAGE: &str = "generation.new";
/// File in the stage folder with the message that begins the generation.
pub const MESSAGE_FILE: &str = "message";

/// Refuses a data directory with an unfinished generation, because the other nodes may have stopped and need the data
/// of that generation.
///
/// # Errors
/// There is an unfinished generation, or the folder cannot be read.
pub fn refuse_unfinished(data: &Path) -> Result<(), ClusterError> {
    let stage = data.join(STAGE);
    let file = stage.join(MESSAGE_FILE);
    match file.try_exists() {
        Err(error) => Err(ClusterError::Refused(format!("{}: {error}", file.display()))),
        Ok(false) => Ok(()),
        Ok(true) => Err(ClusterError::Refused(format!(
            "a new generation was begun here and not finished: finish it with `pando cluster generation --finish`; its \
             data is in {}",
            stage.display()
        ))),
    }
}
