//! Colors on a terminal. The variable `NO_COLOR` turns them off.

use std::io::IsTerminal;

/// Color of a part of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Color {
    /// Color of an addition.
    Green,
    /// Color of a deletion.
    Red,
    /// Color of a modification.
    Yellow,
}

/// Returns true if standard output is a terminal, and neither `NO_COLOR` nor `TERM=dumb` is set.
pub(crate) fn is_on() -> bool {
    std::io::stdout().is_terminal() && allows(std::env::var_os)
}

fn allows(variable: impl Fn(&'static str) -> Option<std::ffi::OsString>) -> bool {
    variable("NO_COLOR").is_none_or(|value| value.is_empty())
        && variable("TERM").is_none_or(|term| term != "dumb")
}

/// Returns the text in a color if `is_on`, otherwise the text itself.
pub(crate) fn paint(is_on: bool, color: Color, text: &str) -> String {
    let code = match color {
        Color::Green => 32,
        Color::Red => 31,
        Color::Yellow => 33,
    };
    if is_on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_turns_colors_off() {
        let with = |name: &'static str, value: &'static str| {
            allows(move |other| (other == name).then(|| value.into()))
        };
        assert!(allows(|_| None) && with("NO_COLOR", "") && with("TERM", "xterm"));
        assert!(!with("NO_COLOR", "1") && !with("TERM", "dumb"));
        assert_eq!(paint(false, Color::Red, "x"), "x");
        assert_eq!(paint(true, Color::Red, "x"), "\u{1b}[31mx\u{1b}[0m");
    }
}
