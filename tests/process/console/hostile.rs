//! Every text of a log is a stranger's: none becomes markup, a field of a response, or a page without bounds.

use std::fmt::Write;

use courtesy::audit::{Client, Group, Record, Robots, Rule};
use courtesy::types::sanitize::sha256_hex;

use crate::audit_cli::support::{Log, record};
use crate::console::support::{Answer, Console, between, encoded, keep};

/// Each with `xss`, by which it is found again.
fn corpus() -> Vec<String> {
    let mut texts: Vec<String> = [
        "<script>xss(1)</script>",
        "</script><script>xss(1)</script>",
        "</style><xss>",
        "</title><xss onload=xss(1)>",
        "</template></bdi></pre><xss>",
        "\" autofocus onfocus=\"xss(1)",
        "' onmouseover='xss(1)",
        "javascript:xss(1)",
        "<!--xss",
        "{{ xss }}${xss}<%= xss %>",
        "xss\u{202e}txt.exe\u{2066}",
        "xss\u{0}\u{1b}[31m\u{7f}\u{85}",
        "xss\r\nSet-Cookie: xss=1\r\n\r\n<xss>",
        "&lt;xss&gt;&#60;xss&#62;",
        "\u{feff}xss\u{fffe}\u{2028}\u{2029}",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push(format!("<xss{}>", "a".repeat(8 << 10)));
    texts
}

/// The record of a request all of whose texts are `text`.
fn with_text(n: u64, text: &str, sha256: &str) -> Record {
    let made = record(n);
    let robots = made.robots.clone().map(|robots| {
        let (text, sha256) = (Some(text.to_owned()), Some(sha256.to_owned()));
        Robots { sha256, url_reached: text.clone(), result: text, ..(*robots).clone() }.into()
    });
    Record {
        agent: Some(text.to_owned()),
        client: Client { name: Some(text.to_owned()), ..made.client.clone() },
        group: Some(Group { line: 1, token: text.to_owned() }),
        method: text.to_owned(),
        node: Some(text.into()),
        rule: Some(Rule {
            directive: "disallow".into(),
            line: 2,
            pattern: text.to_owned(),
            read_as: Vec::new(),
        }),
        robots,
        sni: Some(text.to_owned()),
        url: format!("{}/{text}", made.origin),
        url_as_received: Some(text.to_owned()),
        user_agent: Some(text.to_owned()),
        ..made
    }
}

/// That nothing of the corpus acts in it.
#[track_caller]
fn is_harmless(name: &str, answer: &Answer) {
    for (field, value) in &answer.fields {
        assert!(!field.contains("xss"), "{name}: {field}");
        assert!(field != "set-cookie" && !value.contains('<'), "{name}: {field}: {value}");
    }
    if !answer.field("content-type").unwrap_or_default().starts_with("text/html") {
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"), "{name}");
        let policy = answer.field("content-security-policy").unwrap_or_default();
        assert!(policy.contains("default-src 'none'"), "{name}: {policy}");
        return;
    }
    let text = answer.text();
    for tag in between(&text, "<", ">") {
        let lower = tag.to_ascii_lowercase();
        // A value of an attribute may have the text, between its quotes.
        let outside: String = lower.split('"').step_by(2).collect();
        let is_markup = outside.contains("xss") || outside.contains(" on");
        assert!(!is_markup, "{name}: <{}>", tag.chars().take(200).collect::<String>());
        let refers = lower.contains("href=\"javascript") || lower.contains("src=\"");
        assert!(!refers, "{name}: <{tag}>");
    }
    let acts = |it: char| {
        (it.is_control() && it != '\n' && it != '\t')
            || matches!(it, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found = text.chars().find(|it| acts(*it));
    assert_eq!(found, None, "{name}");
}

#[test]
fn texts_of_strangers_stay_texts_on_every_page() {
    let mut log = Log::new();
    let dir = log.dir.path().to_owned();
    let corpus = corpus();
    let mut file: Vec<u8> = b"User-agent: *\n".to_vec();
    for text in &corpus {
        file.extend_from_slice(format!("Disallow: /{text}\n").as_bytes());
    }
    file.extend_from_slice(b"Disallow: /xss\xff\xfe\xc0\x80<xss>\n");
    let sha256 = keep(&dir, &file);
    log.write(corpus.iter().zip(0..).map(|(text, n)| with_text(n, text, &sha256)));
    let console = Console::opened(&[&dir]);
    let mut targets: Vec<String> =
        ["/", "/records", "/sites", "/exemptions", "/unknown", "/help"].map(str::to_owned).to_vec();
    targets.extend((1..=corpus.len()).map(|seq| format!("/record?seq={seq}")));
    targets.extend((0..3).map(|n| format!("/site?origin=https://www{n}.example.com")));
    targets.push(format!("/file?sha256={sha256}&line=3&group=1"));
    for target in &targets {
        console.page(target);
        is_harmless(target, &console.get(target));
    }
    let listed = console.page("/records");
    assert!(listed.matches("xss").count() >= corpus.len(), "the texts are shown");
    for target in [
        format!("/file/raw?sha256={sha256}"),
        "/record/line?seq=1".into(),
        "/report".into(),
        "/site/dossier?origin=https://www1.example.com".into(),
    ] {
        is_harmless(&target, &console.get(&target));
    }
}

#[test]
fn what_an_address_says_is_not_markup_either() {
    let mut log = Log::new();
    log.write((0..3).map(record));
    let console = Console::opened(&[log.dir.path()]);
    console.page("/");
    let invalid = b"xss\xff\xfe\xc0\x80<xss>".to_vec();
    let texts = corpus().into_iter().filter(|text| text.len() < 1000).map(String::into_bytes);
    for text in texts.chain([invalid]) {
        let text = encoded(&text);
        for target in [
            format!("/records?url={text}"),
            format!("/records?agent={text}&client={text}&rule={text}"),
            format!("/records?since={text}"),
            format!("/records?event={text}"),
            format!("/records?{text}={text}"),
            format!("/records?before={text}"),
            format!("/record?seq={text}"),
            format!("/record?{text}"),
            format!("/file?sha256={text}"),
            format!("/file/raw?sha256={text}"),
            format!("/site?origin={text}"),
            format!("/site?origin=https://{text}"),
            format!("/site/dossier?origin=https://{text}"),
            format!("/ask?url={text}&agent={text}"),
            format!("/ask?url=https://www1.example.com/{text}&agent={text}"),
            format!("/ask?url=https://www1.example.com/&time={text}"),
            format!("/?{text}=1"),
            format!("/login?code={text}"),
            format!("/{text}"),
        ] {
            is_harmless(&target, &console.get(&target));
        }
        let head = format!("/?head={text}");
        let answer = console.get(&head);
        is_harmless(&head, &answer);
    }
}

#[test]
fn a_large_robots_txt_gives_a_page_in_bounds() {
    let mut log = Log::new();
    let dir = log.dir.path().to_owned();
    let mut rules = "User-agent: *\n".to_owned();
    for number in 2..=24_000 {
        let _ = writeln!(rules, "Disallow: /{number}");
    }
    let one_line = format!("Disallow: /{}\n", "<".repeat(500 << 10));
    let empty = "\n".repeat(500_000);
    let cases: [(&str, &[u8], u32); 4] = [
        ("24,000 rules", rules.as_bytes(), 23_500),
        ("one line", one_line.as_bytes(), 1),
        ("empty lines", empty.as_bytes(), 400_000),
        ("NUL", &[0; 500 << 10], 1),
    ];
    for (n, (_, file, line)) in (0..).zip(cases) {
        let sha256 = keep(&dir, file);
        let made = with_text(n, "x", &sha256);
        let rule = made.rule.clone().map(|rule| Rule { line, ..rule });
        log.write([Record { rule, ..made }]);
    }
    let console = Console::opened(&[&dir]);
    for (seq, (name, file, line)) in (1..).zip(cases) {
        let sha256 = sha256_hex(file);
        let page = console.page(&format!("/record?seq={seq}"));
        assert!(page.len() < 80 << 10, "{name}: {} bytes", page.len());
        let decided = format!("▶ {line}</span>");
        assert!(page.contains(&decided), "{name}");
        let page = console.page(&format!("/file?sha256={sha256}&line={line}"));
        assert!(page.len() < 2 << 20, "{name}: {} bytes", page.len());
        assert!(page.contains(&decided), "{name}");
        let raw = console.get(&format!("/file/raw?sha256={sha256}"));
        assert_eq!(sha256_hex(&raw.body), sha256, "{name}");
    }
}
