//! Roles of cache entries.
//!
//! Source of names and order: RocksDB `include/rocksdb/cache.h`, `cache/cache_entry_roles.cc`.

/// The use of a cached value or of reserved memory. RocksDB's `CacheEntryRole`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Role {
    /// A block of keys and values.
    DataBlock,
    /// A filter, or a partition of one.
    FilterBlock,
    /// The index of a partitioned filter.
    FilterMetaBlock,
    /// A filter of a kind no longer written.
    DeprecatedFilterBlock,
    /// An index, or a partition of one.
    IndexBlock,
    /// Another kind of block.
    OtherBlock,
    /// A reservation for the memory of memtables.
    WriteBuffer,
    /// Memory of blocks that wait until a compression dictionary is made from them.
    CompressionDictionaryBuildingBuffer,
    /// Memory for the construction of a filter.
    FilterConstruction,
    /// The memory of an open table, without its blocks.
    BlockBasedTableReader,
    /// Metadata of files.
    FileMetadata,
    /// A value from a blob file.
    BlobValue,
    /// A reservation for the values of a blob cache.
    BlobCache,
    /// Anything else.
    #[default]
    Misc,
}

impl Role {
    /// Number of roles.
    pub const COUNT: usize = 14;

    /// All roles, in RocksDB's order.
    pub const ALL: [Role; Role::COUNT] = [
        Role::DataBlock,
        Role::FilterBlock,
        Role::FilterMetaBlock,
        Role::DeprecatedFilterBlock,
        Role::IndexBlock,
        Role::OtherBlock,
        Role::WriteBuffer,
        Role::CompressionDictionaryBuildingBuffer,
        Role::FilterConstruction,
        Role::BlockBasedTableReader,
        Role::FileMetadata,
        Role::BlobValue,
        Role::BlobCache,
        Role::Misc,
    ];

    /// The name in sentences: `DataBlock`.
    pub const fn camel_name(self) -> &'static str {
        match self {
            Role::DataBlock => "DataBlock",
            Role::FilterBlock => "FilterBlock",
            Role::FilterMetaBlock => "FilterMetaBlock",
            Role::DeprecatedFilterBlock => "DeprecatedFilterBlock",
            Role::IndexBlock => "IndexBlock",
            Role::OtherBlock => "OtherBlock",
            Role::WriteBuffer => "WriteBuffer",
            Role::CompressionDictionaryBuildingBuffer => "CompressionDictionaryBuildingBuffer",
            Role::FilterConstruction => "FilterConstruction",
            Role::BlockBasedTableReader => "BlockBasedTableReader",
            Role::FileMetadata => "FileMetadata",
            Role::BlobValue => "BlobValue",
            Role::BlobCache => "BlobCache",
            Role::Misc => "Misc",
        }
    }

    /// The name in maps: `data-block`.
    pub const fn hyphen_name(self) -> &'static str {
        match self {
            Role::DataBlock => "data-block",
            Role::FilterBlock => "filter-block",
            Role::FilterMetaBlock => "filter-meta-block",
            Role::DeprecatedFilterBlock => "deprecated-filter-block",
            Role::IndexBlock => "index-block",
            Role::OtherBlock => "other-block",
            Role::WriteBuffer => "write-buffer",
            Role::CompressionDictionaryBuildingBuffer => "compression-dictionary-building-buffer",
            Role::FilterConstruction => "filter-construction",
            Role::BlockBasedTableReader => "block-based-table-reader",
            Role::FileMetadata => "file-metadata",
            Role::BlobValue => "blob-value",
            Role::BlobCache => "blob-cache",
            Role::Misc => "misc",
        }
    }
}

/// Entries and bytes of each role.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoleStats {
    entries: [u64; Role::COUNT],
    bytes: [u64; Role::COUNT],
}

impl RoleStats {
    /// Adds entries and bytes.
    pub fn add(&mut self, role: Role, entries: u64, bytes: u64) {
        self.entries[role as usize] += entries;
        self.bytes[role as usize] += bytes;
    }

    /// Number of entries of this role.
    pub fn entries(&self, role: Role) -> u64 {
        self.entries[role as usize]
    }

    /// Charged bytes of this role.
    pub fn bytes(&self, role: Role) -> u64 {
        self.bytes[role as usize]
    }
}
