//! How do I keep an index beside my data, so that both always agree?
//!
//! Run: `cargo run -p esker --example secondary_index`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{ColumnFamilyHandle, ColumnFamilyOptions, Db, Options, WriteBatch};

/// Users by id, and their ids by mail address.
struct Users {
    db: Db,
    by_id: ColumnFamilyHandle,
    by_mail: ColumnFamilyHandle,
}

impl Users {
    /// Sets a user's address. The old index entry, the new one and the user change in one batch.
    fn set_mail(&self, id: &str, mail: &str) -> esker::Result<()> {
        let mut batch = WriteBatch::new();
        if let Some(old) = self.db.get_cf(&self.by_id, id)? {
            batch.delete_cf(self.by_mail.id(), &old)?;
        }
        batch.put_cf(self.by_id.id(), id.as_bytes(), mail.as_bytes())?;
        batch.put_cf(self.by_mail.id(), mail.as_bytes(), id.as_bytes())?;
        self.db.write(&mut batch)
    }

    fn id_of(&self, mail: &str) -> esker::Result<Option<String>> {
        let id = self.db.get_cf(&self.by_mail, mail)?;
        Ok(id.map(|id| String::from_utf8_lossy(&id).into_owned()))
    }
}

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-index-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir)?;
    let by_id = db.create_column_family("users", &ColumnFamilyOptions::default())?;
    let by_mail = db.create_column_family("users_by_mail", &ColumnFamilyOptions::default())?;
    let users = Users { db, by_id, by_mail };

    users.set_mail("17", "ada@example.org")?;
    users.set_mail("17", "countess@example.org")?;
    assert_eq!(users.id_of("ada@example.org")?, None);
    println!("countess@example.org is {:?}", users.id_of("countess@example.org")?);

    drop(users);
    esker::destroy_db(&options.db, &dir)
}
