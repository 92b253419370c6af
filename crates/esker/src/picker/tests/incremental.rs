//! Parts of runs that `incremental` picks from random levels.

use super::simulation::check_order;
use super::*;
use esker_base::rng::Rng;

/// A level of files in order, some of which share a user key with the next.
fn random_level(rng: &mut Rng, next_number: &mut u64, sizes: &[u64]) -> Vec<FileMetaData> {
    let mut files = Vec::new();
    let mut key = rng.below(6);
    while key < 60 {
        let last = key + rng.below(8);
        let size = sizes[rng.index(sizes.len())];
        // Of two files with one user key, the first holds its newer versions.
        *next_number -= 1;
        files.push(parse_file(&format!("{next_number}:k{key:02}-k{last:02},{size}K")).0);
        key = last + u64::from(!rng.one_in(4)) * (1 + rng.below(6)) + u64::from(last == key);
    }
    files
}

fn random_version(rng: &mut Rng) -> Arc<Version> {
    let base = Version::empty(ColumnFamilyId::DEFAULT, InternalKeyComparator::default(), 7);
    let mut edit = VersionEdit::default();
    let mut next_number = 1000;
    for _ in 0..rng.below(3) {
        next_number -= 1;
        edit.new_files.push((0, parse_file(&format!("{next_number}:k00-k70,1K")).0));
    }
    for level in 2..7 {
        let sizes: &[u64] = if level < 5 { &[1, 2] } else { &[5, 10, 30] };
        if level >= 5 || rng.one_in(2) {
            let files = random_level(rng, &mut next_number, sizes);
            edit.new_files.extend(files.into_iter().map(|f| (level, f)));
        }
    }
    apply(&Arc::new(base), &edit).unwrap()
}

#[test]
fn parts_of_runs_leave_no_version_of_their_keys_behind() {
    let (mut parts, mut with_newer) = (0, 0);
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let version = random_version(&mut rng);
        let mut options = PickerOptions {
            compaction_style: CompactionStyle::Universal,
            level0_file_num_compaction_trigger: 2,
            max_compaction_bytes: [20, 60, 200][rng.index(3)] << 10,
            ..PickerOptions::default()
        };
        options.universal.incremental = true;
        options.universal.max_size_amplification_percent = 10;
        let running = RunningCompactions::default();
        let Some(plan) = pick(&version, &at_rest(&options, &running)) else { continue };
        check_order(&plan, seed);
        let is_part = plan.reason == CompactionReason::UniversalSizeAmplification && !plan.is_full;
        parts += u64::from(is_part);
        with_newer += u64::from(is_part && plan.start_level < 5);
    }
    assert!(parts > 500 && with_newer > 100, "{parts} parts, {with_newer} with newer runs");
}
