//! Warm-up of a server, until the cost of its operations is steady.

use crate::result::WarmUp;

/// Maximum ratio between the mean costs of the last two pairs of windows, if the cost is steady. Pairs are compared
/// because single windows on a busy machine vary too much, and because a server that is still warming up may pause.
const CHANGE_MAX: f64 = 1.03;
/// Number of windows after which a server is measured even if it is not steady.
pub(super) const WINDOWS_MAX: usize = 20;

/// Returns true if the cost is steady. `windows` contains the CPU time per operation of each window.
pub(super) fn is_steady(windows: &[f64]) -> bool {
    let [.., a, b, c, d] = windows else { return false };
    let (before, now) = (a + b, c + d);
    before.min(now) > 0.0 && before.max(now) <= before.min(now) * CHANGE_MAX
}

/// Calls `window` until the cost of an operation is steady, at most [`WINDOWS_MAX`] times. Returns `None` if the cost
/// of operations is not known.
pub(super) fn warm_up(mut window: impl FnMut(usize) -> Option<(f64, f64)>) -> Option<WarmUp> {
    let mut done = WarmUp::default();
    for number in 0..WINDOWS_MAX {
        let (seconds, cpu_micros) = window(number)?;
        done.seconds += seconds;
        done.cpu_micros.push(cpu_micros);
        done.is_steady = is_steady(&done.cpu_micros);
        if done.is_steady {
            break;
        }
    }
    Some(done)
}

/// Describes the warm-up in a sentence.
pub(super) fn sentence(warm_up: &WarmUp) -> String {
    let seconds = warm_up.seconds;
    let from_to = match warm_up.cpu_micros.as_slice() {
        [first, .., last] => format!(", from {first:.1} to {last:.1} us of CPU an operation"),
        _ => String::new(),
    };
    match warm_up.is_steady {
        true => format!("warm after {seconds:.0} s{from_to}"),
        false => format!("NOT STEADY after {seconds:.0} s of warming up{from_to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warm_up_with(figures: &[f64]) -> WarmUp {
        warm_up(|number| Some((3.0, figures[number.min(figures.len() - 1)]))).unwrap()
    }

    #[test]
    fn the_warm_up_lasts_until_the_cost_no_longer_falls() {
        // These figures were measured on a server that had just started.
        let falling = [14.2, 10.6, 10.1, 9.9, 9.0, 8.1, 7.6, 7.5, 7.4, 7.4];
        let done = warm_up_with(&falling);
        assert!(done.is_steady);
        assert_eq!(done.cpu_micros, falling);
        assert_eq!(done.seconds, 30.0);
        assert_eq!(sentence(&done), "warm after 30 s, from 14.2 to 7.4 us of CPU an operation");
    }

    #[test]
    fn noise_counts_as_steady_and_a_missing_steady_state_is_reported() {
        assert!(is_steady(&[10.0, 11.0, 11.0, 10.0]));
        let rising: Vec<f64> = (10..10 + WINDOWS_MAX).map(|number| number as f64).collect();
        let done = warm_up_with(&rising);
        assert!(!done.is_steady && done.cpu_micros.len() == WINDOWS_MAX);
        assert!(sentence(&done).starts_with("NOT STEADY after 60 s"), "{}", sentence(&done));
    }

    #[test]
    fn too_few_figures_are_not_steady() {
        assert!(!is_steady(&[]) && !is_steady(&[1.0; 3]) && !is_steady(&[0.0; 4]));
        assert!(is_steady(&[1.0, 1.0, 1.03, 1.03]) && !is_steady(&[1.0, 1.0, 1.04, 1.04]));
        assert!(is_steady(&[9.0, 1.0, 1.0, 1.0, 1.0]));
        assert_eq!(warm_up(|_| None), None);
    }
}
