use super::*;
use esker_base::ErrorKind;
use esker_env::mem::MemFs;

#[test]
fn values_that_expire_are_refused_by_name() {
    let options = BlobSourceOptions {
        dir: "/db".into(),
        open_files: crate::OpenFiles::new(None),
        cache: None,
        charged_to: None,
        use_direct_reads: false,
        statistics: None,
        clock: Arc::new(esker_env::SystemClock),
    };
    let source = BlobSource::new(Arc::new(MemFs::new()), options);
    let location = BlobLocation {
        file_number: FileNumber(9),
        offset: 100,
        size: 10,
        compression: esker_format::compression::CompressionType::None as u8,
    };
    for index in [
        BlobIndex::InlinedTtl { expiration: 7, value: b"value" },
        BlobIndex::BlobTtl { expiration: 7, location },
    ] {
        let mut stored = Vec::new();
        index.append_to(&mut stored);
        let error = source.value(b"key", &stored, &TableReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        assert!(error.message().contains("expiration") && error.message().contains("key"), "{error}");
    }
}
