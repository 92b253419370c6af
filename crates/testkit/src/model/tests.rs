use super::*;
use crate::seed::for_each_seed;

fn text(value: Result<Option<Vec<u8>>, MergeFailed>) -> String {
    match value {
        Ok(Some(v)) => String::from_utf8(v).unwrap(),
        Ok(None) => "-".to_owned(),
        Err(MergeFailed) => "!".to_owned(),
    }
}

#[test]
fn each_read_sees_its_own_point_in_time() {
    let mut m = Model::new();
    m.put(b"a", b"1"); // 1
    m.merge(b"a", b"2"); // 2
    m.delete(b"a"); // 3
    m.merge(b"a", b"3"); // 4
    m.put(b"b", b"x"); // 5
    m.delete_range(b"a", b"b"); // 6
    m.merge(b"a", b"4"); // 7
    let history: Vec<String> = (0..=7).map(|s| text(m.get_at(b"a", s))).collect();
    assert_eq!(history, ["-", "1", "1,2", "-", "3", "3", "-", "4"]);
    assert_eq!(text(m.get(b"b")), "x");
    assert_eq!(m.delete_range(b"z", b"a"), 8);
    assert_eq!(text(m.get(b"b")), "x");
}

#[test]
fn scans_and_seeks_go_by_the_order_and_the_bounds() {
    let mut m = Model::with(|a, b| b.cmp(a), string_append);
    for key in ["a", "b", "c", "d"] {
        m.put(key.as_bytes(), key.as_bytes());
    }
    m.delete(b"c");
    let keys = |lower: Option<&[u8]>, upper: Option<&[u8]>| -> String {
        m.scan_at(m.sequence(), lower, upper).map(|(k, _)| k[0] as char).collect()
    };
    assert_eq!(keys(None, None), "dba");
    assert_eq!(keys(Some(b"c"), Some(b"a")), "b");
    assert_eq!(keys(Some(b"a"), Some(b"c")), "");
    assert_eq!(m.scan_at(m.sequence(), None, None).next_back().unwrap().0, b"a");
    assert_eq!(m.seek_at(b"c", m.sequence()).unwrap().0, b"b");
    assert_eq!(m.seek_for_prev_at(b"c", m.sequence()).unwrap().0, b"d");
    assert_eq!(m.seek_for_prev_at(b"c", 3).unwrap().0, b"c");
    assert!(m.seek_for_prev_at(b"e", m.sequence()).is_none());
}

#[test]
fn a_failing_merge_is_reported() {
    let mut m = Model::with(|a, b| a.cmp(b), |_, _, _| None);
    m.put(b"a", b"1");
    m.merge(b"b", b"1");
    assert_eq!(m.get(b"b"), Err(MergeFailed));
    assert_eq!(m.scan_at(2, None, None).map(|(_, v)| v.is_ok()).collect::<Vec<_>>(), [true, false]);
}

/// Reads at or above the limit give the same answers after `forget_below`.
#[test]
fn forgetting_is_not_seen() {
    for_each_seed("forgetting_is_not_seen", 50, |_, mut rng| {
        let mut m = Model::new();
        let key = |rng: &mut fastrand::Rng| vec![rng.u8(b'a'..b'h')];
        for _ in 0..60 {
            let k = key(&mut rng);
            match rng.u8(..4) {
                0 => m.put(&k, &[rng.u8(b'0'..=b'9')]),
                1 => m.delete(&k),
                2 => m.merge(&k, &[rng.u8(b'0'..=b'9')]),
                _ => m.delete_range(&k, &key(&mut rng)),
            };
        }
        let oldest = rng.u64(0..=m.sequence());
        let mut short = m.clone();
        short.forget_below(oldest);
        for sequence in oldest..=m.sequence() {
            let all = |m: &Model| -> Vec<_> {
                m.scan_at(sequence, None, None).map(|(k, v)| (k.to_vec(), v)).collect()
            };
            assert_eq!(all(&short), all(&m), "at {sequence}, forgotten below {oldest}");
        }
    });
}

/// A read panics even if the model has no change of its key left.
#[test]
#[should_panic(expected = "history below 3 was forgotten")]
fn reads_of_forgotten_history_panic() {
    let mut m = Model::new();
    m.put(b"a", b"1");
    m.delete(b"a");
    m.put(b"b", b"1");
    m.forget_below(3);
    _ = m.get_at(b"a", 1);
}
