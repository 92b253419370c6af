//! Any text as options of a database, a family and a table: refused, and nothing has changed; or
//! what is printed is read again as the same.

use esker::internals::table::BlockBasedTableOptions;
use esker::options::OptionStruct;
use esker::{ColumnFamilyOptions, DbOptions};

fn texts<T: OptionStruct>(options: &T) -> Vec<(&'static str, String)> {
    let named = T::all_options().iter().map(|option| option.name);
    named.filter_map(|name| Some((name, options.text_of(name)?))).collect()
}

fn check<T: OptionStruct + Default>(text: &str) {
    let mut options = T::default();
    let before = texts(&options);
    if options.set_from_string(text).is_err() {
        assert_eq!(texts(&options), before, "{text}");
        return;
    }
    let printed = texts(&options);
    let mut again = T::default();
    for (name, value) in &printed {
        again.set_text(name, value).unwrap_or_else(|e| panic!("{name}={value}: {e}"));
    }
    assert_eq!(texts(&again), printed, "{text}");
}

/// One input.
pub fn run(data: &[u8]) {
    let Some((&kind, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match kind % 3 {
        0 => check::<DbOptions>(text),
        1 => check::<ColumnFamilyOptions>(text),
        _ => check::<BlockBasedTableOptions>(text),
    }
}
