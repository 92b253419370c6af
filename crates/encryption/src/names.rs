//! The methods of a file system that concern names, not content. They call the file system below.

/// Implements these methods by calls of `self.inner()`.
macro_rules! names_of_inner {
    () => {
        fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
            self.inner().new_directory(path)
        }
        fn file_exists(&self, path: &Path) -> Result<bool> {
            self.inner().file_exists(path)
        }
        fn children(&self, dir: &Path) -> Result<Vec<String>> {
            self.inner().children(dir)
        }
        fn delete_file(&self, path: &Path) -> Result<()> {
            self.inner().delete_file(path)
        }
        fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
            self.inner().create_dir_if_missing(path)
        }
        fn delete_dir(&self, path: &Path) -> Result<()> {
            self.inner().delete_dir(path)
        }
        fn link_count(&self, path: &Path) -> Result<u64> {
            self.inner().link_count(path)
        }
        fn modification_time(&self, path: &Path) -> Result<u64> {
            self.inner().modification_time(path)
        }
        fn rename(&self, from: &Path, to: &Path) -> Result<()> {
            self.inner().rename(from, to)
        }
        fn link_file(&self, existing: &Path, new: &Path) -> Result<()> {
            self.inner().link_file(existing, new)
        }
        fn hold_also(&self, paths: &[&Path]) -> Result<()> {
            self.inner().hold_also(paths)
        }
        fn check_may_change(&self, path: &Path) -> Result<()> {
            self.inner().check_may_change(path)
        }
        fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
            self.inner().lock_file(path)
        }
        fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
            self.inner().absolute_path(path)
        }
        fn free_space(&self, path: &Path) -> Result<u64> {
            self.inner().free_space(path)
        }
    };
}

pub(crate) use names_of_inner;
