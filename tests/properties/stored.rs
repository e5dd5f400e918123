//! A row of the store and a capture, whatever is in their place, are read or refused, never a panic;
//! what is read is written again as it was meant.

use courtesy::audit::evidence::CaptureRecord;
use courtesy::store::Persisted;

/// JSON, perhaps.
pub fn holds(bytes: &[u8]) {
    if let Ok(known) = serde_json::from_slice::<Persisted>(bytes) {
        let written = serde_json::to_vec(&known).expect("plain values");
        let again: Persisted = serde_json::from_slice(&written).expect("what is written is read");
        assert_eq!(again, known);
        assert_eq!(serde_json::to_vec(&again).expect("plain values"), written);
    }
    if let Ok(capture) = serde_json::from_slice::<CaptureRecord>(bytes) {
        let sealed = capture.seal();
        let again: CaptureRecord =
            serde_json::from_slice(&sealed.json).expect("what is written is read");
        assert_eq!((again.seal(), again), (sealed, capture), "one attempt has one digest");
    }
}
