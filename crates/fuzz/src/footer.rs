//! Any bytes as the end of a table, and as a block handle.

use esker_base::coding::Decoder;
use esker_format::footer::Footer;
use esker_format::handle::BlockHandle;

/// One input.
pub fn run(data: &[u8]) {
    if let Ok(handle) = BlockHandle::decode(&mut Decoder::new(data)) {
        let mut again = Vec::new();
        handle.encode(&mut again);
        assert_eq!(BlockHandle::decode(&mut Decoder::new(&again)).unwrap(), handle);
    }
    // Tails of files of several sizes: from version 6 on a footer knows where it lies.
    for before in [0, 1 << 12, 1 << 40] {
        let file_size = before + data.len() as u64;
        let Ok(footer) = Footer::parse(data, file_size) else { continue };
        assert!(footer.meta_index.check_within(file_size).is_ok());
        if footer.format_version < 2 {
            continue;
        }
        let offset = file_size - 53;
        let again = footer.encode(offset);
        assert_eq!(Footer::parse(&again, file_size).unwrap(), footer);
    }
}
