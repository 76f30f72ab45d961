use super::*;

#[test]
fn every_command_is_found_by_its_name_in_letters_of_any_size() {
    for command in &COMMANDS {
        for name in [command.name.to_owned(), command.name.to_uppercase()] {
            let found = Command::named(name.as_bytes()).map(|it| it.name);
            assert_eq!(found, Some(command.name));
        }
    }
    assert!(Command::named(b"CL.THROTTLES").is_none());
}
