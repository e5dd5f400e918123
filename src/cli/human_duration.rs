//! Lengths of time as people say them: "45 s", "2 min", "23 h 58 min", "30 d".

use std::time::Duration;

/// The largest unit and the next, where there is any of it; nothing finer.
pub fn human_duration(duration: Duration) -> String {
    // To the nearest second: what was fetched 40 ms ago is current for a whole day.
    let seconds = (duration + Duration::from_millis(500)).as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(parts.len() - 1);
    let (count, unit) = parts[first];
    match parts.get(first + 1) {
        Some((next, next_unit)) if *next > 0 => format!("{count} {unit} {next} {next_unit}"),
        _ => format!("{count} {unit}"),
    }
}

/// As [`human_duration`], with parts of a second where it is shorter than a minute.
pub fn seconds(duration: Duration) -> String {
    if duration >= Duration::from_secs(60) || duration.subsec_millis() == 0 {
        return human_duration(duration);
    }
    let seconds = duration.as_secs_f64();
    let digits = format!("{seconds:.3}");
    format!("{} s", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_second_where_there_are_some() {
        for (millis, text) in [
            (500, "0.5 s"),
            (1, "0.001 s"),
            (2_000, "2 s"),
            (12_340, "12.34 s"),
            (61_500, "1 min 2 s"),
        ] {
            assert_eq!(seconds(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn two_units_at_most() {
        for (millis, text) in [
            (0, "0 s"),
            (400, "0 s"),
            (45_000, "45 s"),
            (120_000, "2 min"),
            (86_280_000, "23 h 58 min"),
            (86_399_900, "1 d"),
            (90_061_000, "1 d 1 h"),
        ] {
            assert_eq!(human_duration(Duration::from_millis(millis)), text);
        }
    }
}
