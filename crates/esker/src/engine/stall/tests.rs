use super::*;

/// A caller may set a huge rate to turn the limit off.
#[test]
fn a_rate_beyond_all_bounds_stays_one() {
    use WriteStallCondition::{Delayed, Normal, Stopped};
    for rate in [1 << 62, u64::MAX] {
        let stall = StallState::new(rate);
        for (condition, debt) in
            [(Delayed, 1), (Delayed, 2), (Delayed, 3), (Delayed, 2), (Stopped, 2), (Delayed, 2)]
        {
            stall.update([condition].into_iter(), debt);
            assert!(stall.delayed_write_rate() > rate / 4, "{} of {rate}", stall.delayed_write_rate());
        }
        let mut now = 1;
        for _ in 0..4 {
            assert_eq!(stall.delay_micros(1 << 20, now), 0);
            now += 3_600_000_000;
        }
        stall.update([Normal].into_iter(), 0);
        assert_eq!(stall.delayed_write_rate(), rate);
    }
}
