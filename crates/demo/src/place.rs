//! The demonstration's directory: a user's, or a temporary one.

use crate::failure::{DemoFailure, DemoOutcome};
use esker::options::DbOptions;
use std::path::{Path, PathBuf};

/// The directory of the database. Only `leave` removes it, and only if it is temporary.
#[derive(Debug)]
pub(crate) struct DemoPlace {
    path: PathBuf,
    stays: bool,
}

impl DemoPlace {
    /// The user's `dir`, or a fresh temporary directory.
    pub(crate) fn prepare(dir: Option<&Path>, keep: bool) -> DemoOutcome<DemoPlace> {
        let fs = DbOptions::default().env.fs;
        let place = match dir {
            Some(dir) => DemoPlace { path: dir.to_owned(), stays: true },
            None => DemoPlace { path: fresh_path(), stays: keep },
        };
        fs.create_dir_if_missing(&place.path)?;
        if !fs.children(&place.path)?.is_empty() {
            return Err(DemoFailure::new(format_args!(
                "{} is not empty: name a directory that is empty or does not exist (--dir)",
                place.path.display()
            )));
        }
        Ok(place)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory if it is temporary and not to be kept.
    pub(crate) fn leave(self) -> DemoOutcome {
        if !self.stays {
            esker::destroy_db(&DbOptions::default(), &self.path)?;
        }
        Ok(())
    }
}

fn fresh_path() -> PathBuf {
    let process = esker::internals::env::system::process_id();
    let random = esker::internals::env::random::u64();
    std::env::temp_dir().join(format!("esker-demo-{process}-{random:08x}", random = random as u32))
}
