//! Any text is a configuration or is refused with a place; the effective settings, printed, are a
//! configuration that comes to the same settings.

use std::path::Path;

use courtesy::config::{Effective, InvalidSettings, Loaded, load_text};

/// The text of a file.
pub fn holds(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let loaded = match load(text) {
        Ok(loaded) => loaded,
        Err(InvalidSettings(diagnostics)) => {
            assert!(!diagnostics.is_empty());
            for diagnostic in diagnostics {
                assert!(diagnostic.place.is_some() || !diagnostic.key.is_empty(), "{diagnostic}");
            }
            return;
        }
    };
    let printed: String = loaded.effective().iter().map(|setting| format!("{setting}\n")).collect();
    match load(&printed) {
        Ok(again) => assert_eq!(values(&again), values(&loaded)),
        Err(refusal) => panic!("{refusal}\n{printed}"),
    }
}

fn load(text: &str) -> Result<Loaded, InvalidSettings> {
    load_text(Path::new("courtesy.toml"), text, [("HOME".into(), "/home/somebody".into())])
}

fn values(loaded: &Loaded) -> Vec<(String, serde_json::Value)> {
    let value = |setting: Effective| (setting.key, setting.value);
    loaded.effective().into_iter().map(value).collect()
}
