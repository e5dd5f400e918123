//! Classes of bytes in a head, as a table: each byte of each head is looked up.

/// In a token (RFC 9110 §5.6.2).
pub const TOKEN: u8 = 1;
/// A capital letter.
pub const CAPITAL: u8 = 1 << 1;
/// A small letter.
pub const SMALL: u8 = 1 << 2;
/// In the host of most URLs: letters, digits and few signs.
pub const HOST: u8 = 1 << 3;
/// In the path and query of most URLs.
pub const PATH: u8 = 1 << 4;

/// Whether `byte` is one of `class`.
pub const fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

const CLASSES: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 128 {
        let byte = at as u8;
        table[at] = match byte {
            b'A'..=b'Z' => TOKEN | CAPITAL | HOST | PATH,
            b'a'..=b'z' => TOKEN | SMALL | HOST | PATH,
            b'0'..=b'9' | b'-' | b'.' => TOKEN | HOST | PATH,
            b'_' | b'%' | b'&' => TOKEN | PATH,
            b'!' | b'#' | b'$' | b'\'' | b'*' | b'+' | b'^' | b'`' | b'|' | b'~' => TOKEN,
            b'/' | b'?' | b'=' => PATH,
            _ => 0,
        };
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_its_bytes_and_no_other() {
        for (class, signs) in [
            (TOKEN, "!#$%&'*+-.^_`|~"),
            (CAPITAL, ""),
            (SMALL, ""),
            (HOST, "-."),
            (PATH, "-._/?&=%"),
        ] {
            for byte in 0..=u8::MAX {
                let expected = match byte {
                    b'A'..=b'Z' => class != SMALL,
                    b'a'..=b'z' => class != CAPITAL,
                    b'0'..=b'9' => ![CAPITAL, SMALL].contains(&class),
                    sign => signs.as_bytes().contains(&sign),
                };
                assert_eq!(is(byte, class), expected, "{:?} as {class}", byte as char);
            }
        }
    }
}
