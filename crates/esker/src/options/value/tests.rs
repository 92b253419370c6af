use super::*;
use crate::options::CompressionOptions;

#[test]
fn numbers_take_suffixes_and_stay_in_range() {
    assert_eq!(u64::parse(" 64m ").unwrap(), 64 << 20);
    assert_eq!(u64::parse("1T").unwrap(), 1 << 40);
    assert_eq!(u64::parse("18446744073709551615").unwrap(), u64::MAX);
    assert_eq!(i32::parse("-1").unwrap(), -1);
    assert_eq!(i64::parse("-8k").unwrap(), -8192);
    for text in ["", "k", "1kk", "0x10", "1.5", "é", "99999999999999999999999999999999999999999999t", "1é"]
    {
        assert!(u64::parse(text).is_err(), "{text}");
    }
    assert!(i32::parse("2g").is_err());
    assert!(u32::parse("-1").is_err());
}

#[test]
fn other_values() {
    assert_eq!((bool::parse("1").unwrap(), bool::parse("false").unwrap()), (true, false));
    assert!(bool::parse("yes").is_err());
    assert_eq!(f64::parse("10.000000").unwrap(), 10.0);
    assert!(f64::parse("nan").is_err());
    assert_eq!(Vec::<i32>::parse("1:2:-3").unwrap(), [1, 2, -3]);
    assert_eq!(Vec::<i32>::parse("").unwrap(), [0; 0]);
    assert_eq!(InfoLogLevel::parse("WARN_LEVEL").unwrap(), InfoLogLevel::Warn);
    assert!(InfoLogLevel::parse("WARN").is_err());
    assert_eq!(Option::<CompressionType>::parse("kDisableCompressionOption").unwrap(), None);
    assert_eq!(Option::<CompressionType>::parse("kZSTD").unwrap(), Some(CompressionType::Zstd));
    assert_eq!(object_name("{id=StringAppendOperator;delimiter=,;}"), "StringAppendOperator");
    assert_eq!(object_name(" nullptr "), "nullptr");
}

#[test]
fn compression_options_in_every_spelling() {
    let seven = "{max_dict_buffer_bytes=0;enabled=true;max_dict_bytes=0;parallel_threads=1;zstd_max_train_bytes=0;\
                 level=5;use_zstd_dict_trainer=true;strategy=0;window_bits=-14;}";
    let options = CompressionOptions::parse(seven).unwrap();
    assert_eq!((options.level, options.enabled), (5, true));
    assert_eq!(CompressionOptions::parse(&options.print()).unwrap(), options);
    let old = CompressionOptions::parse("4:5:6:7:8:true").unwrap();
    assert_eq!((old.window_bits, old.level, old.strategy, old.max_dict_bytes), (4, 5, 6, 7));
    assert_eq!((old.zstd_max_train_bytes, old.parallel_threads, old.enabled), (8, 1, true));
    let newer = CompressionOptions::parse("4:5:6:7:8:2:false").unwrap();
    assert_eq!((newer.parallel_threads, newer.enabled), (2, false));
    assert!(CompressionOptions::parse("{level=high}").is_err());
    assert!(CompressionOptions::parse("{level=1").is_err());
}
