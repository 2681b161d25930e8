//! The manual pages and completions that the package contains.

use test_support::Scratch;
use test_support::pando::command;

/// Returns the long options that a help text lists.
fn options(help: &str) -> Vec<&str> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    lines
        .filter_map(|line| line.split([' ', ',']).find(|word| word.starts_with("--") && word.len() > 2))
        .collect()
}

#[test]
fn each_command_has_a_manual_page_and_completions_with_its_options() {
    let scratch = Scratch::new("manual");
    let folder = scratch.join("man1");
    command(&["man", folder.to_str().unwrap()], None)
        .expect_code(1)
        .expect_error("cannot write manual pages");
    std::fs::create_dir(&folder).unwrap();
    command(&["man", folder.to_str().unwrap()], None).expect_code(0);
    let scripts = ["bash", "zsh", "fish"].map(|shell| command(&["completions", shell], None).stdout);

    // Visit all commands that the help texts list, at every level.
    let mut waiting = vec![Vec::<String>::new()];
    let mut count = 0;
    while let Some(words) = waiting.pop() {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = command(&arguments, None).expect_code(0).stdout;
        let page =
            folder.join(format!("pando{}.1", words.iter().map(|w| format!("-{w}")).collect::<String>()));
        let page = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page:?}: {error}"));
        let page = page.replace('\\', "");
        for option in options(&help) {
            assert!(page.contains(option), "the page of {words:?} lacks {option}");
            for (script, has) in scripts.iter().zip([option, option, option.trim_start_matches('-')]) {
                assert!(script.contains(has), "the completions lack {option} of {words:?}");
            }
        }
        let listed =
            help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        for name in listed.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
            waiting.push(words.iter().cloned().chain([name.to_owned()]).collect());
        }
        count += 1;
    }
    assert!(count > 40, "{count}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), count);
}
