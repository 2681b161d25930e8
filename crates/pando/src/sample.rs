//! The sample organisation for a new directory.

use server::{Opened, ServeError};

/// Loads the sample organisation below the first suffix, if the directory is empty. Returns a message about the result.
pub(crate) fn load(opened: &mut Opened) -> Result<String, ServeError> {
    if !opened.directory().is_empty()? {
        return Ok("the directory has entries, the sample is not loaded".to_owned());
    }
    let given = opened.config().suffixes.first().map(ToString::to_string);
    let Some(suffix) = given.or_else(|| opened.directory().suffixes().into_iter().next()) else {
        return Ok("the directory has no suffix, the sample is not loaded".to_owned());
    };
    let entries =
        bench::sample::organisation(&suffix).map_err(|error| ServeError::Sample(error.to_string()))?;
    let count = opened.load(entries.map(|entry| (entry.dn, entry.attributes)))?;
    let password = bench::sample::PASSWORD;
    Ok(format!(
        "loaded a sample organisation of {count} entries below {suffix}; all passwords are {password:?}"
    ))
}
