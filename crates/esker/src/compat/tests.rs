use super::*;

#[test]
fn the_newest_need_comes_first_and_each_file_counts_once() {
    let mut report = CompatReport::default();
    assert_eq!(report.oldest(), Release::OLDEST);
    for (feature, file) in [
        (Feature::FormatVersion6, "000007.sst"),
        (Feature::FormatVersion7, "000008.sst"),
        (Feature::FormatVersion7, "000009.sst"),
        (Feature::TimedPut, "000010.log"),
        (Feature::TimedPut, "000010.log"),
    ] {
        report.need(feature, file);
    }
    let found: Vec<_> = report.needs.iter().map(|n| (n.feature, n.file.as_str(), n.files)).collect();
    assert_eq!(
        found,
        [
            (Feature::FormatVersion7, "000008.sst", 2),
            (Feature::TimedPut, "000010.log", 1),
            (Feature::FormatVersion6, "000007.sst", 1),
        ]
    );
    assert_eq!(report.oldest(), Release(10, 4));
}

#[test]
fn releases_are_read_from_options_files() {
    assert_eq!(parse_release("11.8.1"), Some(Release(11, 8)));
    assert_eq!(parse_release("7.8"), Some(Release(7, 8)));
    assert_eq!(parse_release("eleven"), None);
}
