//! User-Agents as they are sent, and whose token they have.

use super::*;

const SAFARI: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15";
const CHROME: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36";
const ANDROID: &str = "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.6778.69 Mobile Safari/537.36";
const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0";
const WEBKIT: &str = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko";
const IOS_VIEW: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148";
const ANDROID_VIEW: &str = "Mozilla/5.0 (Linux; Android 14; SM-S918B Build/UP1A.231005.007; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/131.0.6778.39 Mobile Safari/537.36";

/// Whose token each begins with, and what follows it.
#[track_caller]
fn named(cases: &[(&str, &str, &str)]) {
    for (beginning, rest, token) in cases {
        let user_agent = format!("{beginning}{rest}");
        let found = product_token(user_agent.as_bytes());
        assert_eq!(found, Some(*token).filter(|token| !token.is_empty()), "{user_agent}");
    }
}

#[test]
fn the_first_product_names_the_crawler() {
    named(&[
        ("", "Zebra/2.1 (+https://zebra.example)", "Zebra"),
        ("", "FigTree/0.1 Robot/1.0 libwww-perl/5.04", "FigTree"),
        ("", "MJ12bot/v1.4.8 (http://mj12bot.example/)", "MJ12bot"),
        ("", "  zebra-images", "zebra-images"),
        (
            "",
            "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
            "facebookexternalhit",
        ),
        ("", "Googlebot-Image/1.0", "Googlebot-Image"),
        ("", "Googlebot/2.1 (+http://www.google.com/bot.html)", "Googlebot"),
        ("", "AdsBot-Google (+http://www.google.com/adsbot.html)", "AdsBot-Google"),
        ("", "FeedFetcher-Google; (+http://www.google.com/feedfetcher.html)", "FeedFetcher-Google"),
        ("", "CCBot/2.0 (https://commoncrawl.org/faq/)", "CCBot"),
        (
            "",
            "meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)",
            "meta-externalagent",
        ),
        (
            "",
            "LinkedInBot/1.0 (compatible; Mozilla/5.0; Jakarta Commons-HttpClient/3.1 +http://www.linkedin.com)",
            "LinkedInBot",
        ),
        ("", "TelegramBot (like TwitterBot)", "TelegramBot"),
        (
            "",
            "ia_archiver (+http://www.alexa.com/site/help/webmasters; crawler@alexa.com)",
            "ia_archiver",
        ),
        ("", "Scrapy/2.11.2 (+https://scrapy.org)", "Scrapy"),
        ("", "curl/8.5.0", "curl"),
        ("", "Dalvik/2.1.0 (Linux; U; Android 9; SM-G960F Build/PPR1.180610.011)", "Dalvik"),
    ]);
}

#[test]
fn a_crawler_that_speaks_a_browsers_words_is_named_after_compatible() {
    named(&[
        ("Mozilla/5.0 ", "(compatible; Zebra/2.1; +https://zebra.example)", "Zebra"),
        (
            "mozilla/5.0 ",
            "(COMPATIBLE ;archive.org_bot +http://archive.example)",
            "archive.org_bot",
        ),
        (
            "Mozilla/5.0 ",
            "(compatible; archive.org_bot +http://archive.org/details/archive.org_bot)",
            "archive.org_bot",
        ),
        (
            "Mozilla/5.0 ",
            "(compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "Googlebot",
        ),
        (
            WEBKIT,
            "; compatible; Googlebot/2.1; +http://www.google.com/bot.html) Chrome/131.0.0.0 Safari/537.36",
            "Googlebot",
        ),
        (ANDROID, " (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Googlebot"),
        (ANDROID, " (compatible; GoogleOther)", "GoogleOther"),
        ("Mozilla/5.0 ", "(compatible; Google-InspectionTool/1.0;)", "Google-InspectionTool"),
        ("Mozilla/5.0 ", "(compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)", "bingbot"),
        (
            WEBKIT,
            "; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/131.0.0.0 Safari/537.36",
            "bingbot",
        ),
        (
            "Mozilla/5.0 ",
            "(seoanalyzer; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
            "bingbot",
        ),
        (
            "Mozilla/5.0 ",
            "(compatible; YandexBot/3.0; MirrorDetector; +http://yandex.com/bots)",
            "YandexBot",
        ),
        (IPHONE, " (compatible; YandexMobileBot/3.0; +http://yandex.com/bots)", "YandexMobileBot"),
        (WEBKIT, "; compatible; GPTBot/1.2; +https://openai.com/gptbot)", "GPTBot"),
        (CHROME, "; compatible; OAI-SearchBot/1.0; +https://openai.com/searchbot", "OAI-SearchBot"),
        (WEBKIT, "); compatible; ChatGPT-User/1.0; +https://openai.com/bot", "ChatGPT-User"),
        (WEBKIT, "; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)", "ClaudeBot"),
        (
            WEBKIT,
            "; compatible; Amazonbot/0.1; +https://developer.amazon.com/support/amazonbot) Chrome/119.0.6045.214 Safari/537.36",
            "Amazonbot",
        ),
        (
            ANDROID,
            " (compatible; PetalBot;+https://webmaster.petalsearch.com/site/petalbot)",
            "PetalBot",
        ),
        (ANDROID, " (compatible; Bytespider; spider-feedback@bytedance.com)", "Bytespider"),
        (
            "Mozilla/5.0 ",
            "(compatible;PetalBot;+https://webmaster.petalsearch.com/site/petalbot)",
            "PetalBot",
        ),
        ("Mozilla/5.0 ", "(compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", "AhrefsBot"),
        (
            "Mozilla/5.0 ",
            "(compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)",
            "SemrushBot",
        ),
        (
            "Mozilla/5.0 ",
            "(compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
            "Slurp",
        ),
        (
            "Mozilla/5.0 ",
            "(compatible; Yahoo! DE Slurp/3.0; http://help.yahoo.com/help/us/ysearch/slurp)",
            "Slurp",
        ),
        (
            "Mozilla/5.0 ",
            "(compatible; Baiduspider-render/2.0; +http://www.baidu.com/search/spider.html)",
            "Baiduspider-render",
        ),
        (
            "Mozilla/5.0 ",
            "(compatible; 008/0.83; http://www.80legs.com/webcrawler.html) Gecko/2008032620",
            "008",
        ),
        ("Mozilla/5.0 ", "(compatible; Dataprovider.com)", "Dataprovider.com"),
        ("Mozilla/4.5 ", "(compatible; HTTrack 3.0x; Windows 98)", "HTTrack"),
        (
            "Mozilla/5.0+",
            "(compatible;+UptimeRobot/2.0;+http://www.uptimerobot.com/)",
            "UptimeRobot",
        ),
        // Without parentheses, without semicolon, and with nothing else.
        ("Mozilla/5.0 ", "compatible; ExampleBot/1.0", "ExampleBot"),
        ("Mozilla/5.0 ", "(compatible ExampleBot/1.0)", "ExampleBot"),
        ("Mozilla/5.0 ", "(compatible: ExampleSpider)", "ExampleSpider"),
        ("Mozilla/5.0 ", "(compatible, Zebra)", "Zebra"),
        ("Mozilla/5.0 ", "(compatible; Zebra", "Zebra"),
        ("Mozilla/5.0 ", "(compatible;) Zebra/1.0 (+https://zebra.example)", "Zebra"),
        (
            "Mozilla/5.0 ",
            "(compatible) Feedfetcher-Google;(+http://www.google.com/feedfetcher.html)",
            "Feedfetcher-Google",
        ),
        (CHROME, "; compatible; ExampleBot/1.0; +https://example.com/bot", "ExampleBot"),
        (CHROME, "; compatible; Zebra", "Zebra"),
        (
            "Mozilla/4.0 ",
            "(compatible; MSIE 6.0; Windows NT 5.1) (compatible; Zebra; +http://z.example)",
            "Zebra",
        ),
        // Phones that said no Mozilla, which crawlers have imitated.
        (
            "DoCoMo/2.0 N905i(c100;TB;W24H16) ",
            "(compatible; Googlebot-Mobile/2.1; +http://www.google.com/bot.html)",
            "Googlebot-Mobile",
        ),
        (
            "SAMSUNG-SGH-E250/1.0 Profile/MIDP-2.0 Configuration/CLDC-1.1 UP.Browser/6.2.3.3.c.1.101 (GUI) MMP/2.0 ",
            "(compatible; Googlebot-Mobile/2.1; +http://www.google.com/bot.html)",
            "Googlebot-Mobile",
        ),
        (
            "Opera/9.80 (Windows NT 6.1; U; en) Presto/2.12.388 Version/12.16 ",
            "(compatible; ExampleBot/1.0; +https://example.com)",
            "ExampleBot",
        ),
    ]);
}

#[test]
fn a_crawler_is_named_before_its_url_or_mail_address() {
    named(&[
        (SAFARI, " (Applebot/0.1; +http://www.apple.com/go/applebot)", "Applebot"),
        (SAFARI, " (Amazonbot/0.1; +https://developer.amazon.com/support/amazonbot)", "Amazonbot"),
        (IPHONE, " (Zebra/2.1; +https://zebra.example)", "Zebra"),
        (IPHONE, " (Zebra/2.1 +https://zebra.example)", "Zebra"),
        (IPHONE, " (Zebra; mailto:zebra@zebra.example)", "Zebra"),
        (IPHONE, " (Zebra; www.zebra.example)", "Zebra"),
        (CHROME, " (Zebra, +zebra.example/bot)", "Zebra"),
        (CHROME, " ExampleArchiver/1.0 (+https://example.com)", "ExampleArchiver"),
        (CHROME, " Zebra/1.0 (+https://zebra.example)", "Zebra"),
        (CHROME, " Zebra (https://zebra.example)", "Zebra"),
        (CHROME, " Zebra 1.0 (+https://zebra.example)", "Zebra"),
        (CHROME, " Zebra/1.0 (compatible; +https://zebra.example)", "Zebra"),
        (CHROME, " Zebra/1.0 +https://zebra.example", "Zebra"),
        (CHROME, "; Zebra/1.0; +https://zebra.example", "Zebra"),
        (CHROME, " SomeToolkit/1.0 Zebra/1.0 (+https://zebra.example)", "Zebra"),
        (IOS_VIEW, " Zebra/1.0 (+https://zebra.example)", "Zebra"),
        (ANDROID_VIEW, " Zebra/1.0 (zebra@zebra.example)", "Zebra"),
        ("Mozilla/5.0 ", "(X11 (Zebra; http://no.example); Lion (b); http://yes.example)", "Lion"),
        (
            "Mozilla/5.0 ",
            "(compatible; Linux x86_64; Mail.RU_Bot/2.0; +http://go.mail.ru/help/robots)",
            "Mail.RU_Bot",
        ),
        ("Mozilla/5.0 ", "(Zebra/1.0; +https://zebra.example)", "Zebra"),
        ("Mozilla/5.0 ", "Zebra/1.0 https://zebra.example", "Zebra"),
    ]);
}

#[test]
fn a_crawler_is_named_by_its_kind_or_a_word_that_no_browser_has() {
    named(&[
        ("Mozilla/5.0 ", "ExampleBot/1.0", "ExampleBot"),
        ("Mozilla/5.0 ", "ExampleBot", "ExampleBot"),
        ("Mozilla/5.0; ", "ExampleBot", "ExampleBot"),
        ("Mozilla/5.0 ", "Zebra/1.0", "Zebra"),
        ("Mozilla/5.0 ", "(ExampleBot/1.0)", "ExampleBot"),
        ("Mozilla/5.0 ", "(ExampleBot)", "ExampleBot"),
        ("Mozilla/5.0 ", "(https://example.com/bot; ExampleBot/1.0)", "ExampleBot"),
        (
            "Mozilla/5.0 ",
            "(X11; Linux x86_64; Storebot-Google/1.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/79.0.3945.88 Safari/537.36",
            "Storebot-Google",
        ),
        (
            "Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/534+ (KHTML, like Gecko) ",
            "BingPreview/1.0b",
            "BingPreview",
        ),
        (SAFARI, " facebookexternalhit/1.1 Facebot Twitterbot/1.0", "facebookexternalhit"),
        (CHROME, " (ExampleBot)", "ExampleBot"),
        (CHROME, "; ExampleSpider", "ExampleSpider"),
        (WEBKIT, "); ExampleSpider", "ExampleSpider"),
        (WEBKIT, "); Zebra/2", "Zebra"),
        (CHROME, " Chrome-Lighthouse", "Chrome-Lighthouse"),
        (CHROME, " ExampleArchiver/1.0", "ExampleArchiver"),
        (CHROME, " Zebra/1.0", "Zebra"),
        (CHROME, " NewBrowser/1.0 ExampleBot/1.0", "ExampleBot"),
        (FIREFOX, " ExampleCrawler", "ExampleCrawler"),
        (FIREFOX, " 360Spider", "360Spider"),
        (IOS_VIEW, " ExampleBot/1.0", "ExampleBot"),
        (ANDROID_VIEW, "; ExampleBot", "ExampleBot"),
        ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1) ", "ExampleBot/1.0", "ExampleBot"),
        ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; ", "ExampleBot/1.0)", "ExampleBot"),
    ]);
}

/// Browsers, what shows pages in apps, and what has no name of its own.
#[test]
fn a_browser_is_mozilla() {
    for (beginning, rest) in [
        (SAFARI, ""),
        (CHROME, ""),
        (ANDROID, ""),
        (IPHONE, ""),
        (FIREFOX, ""),
        (IOS_VIEW, ""),
        (ANDROID_VIEW, ""),
        ("Mozilla/5.0 ", "(X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120"),
        (
            "Mozilla/5.0 ",
            "(X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/131.0.0.0 Safari/537.36",
        ),
        (
            "Mozilla/5.0 ",
            "(Unknown; Linux x86_64) AppleWebKit/538.1 (KHTML, like Gecko) PhantomJS/2.1.1 Safari/538.1",
        ),
        (CHROME, " Edg/131.0.0.0"),
        (ANDROID, " EdgA/131.0.0.0"),
        (
            "Mozilla/5.0 ",
            "(Windows NT 10.0; Win64; x64; ServiceUI 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/70.0.3538.102 Safari/537.36 Edge/18.19045",
        ),
        (CHROME, " OPR/116.0.0.0 (Edition Campaign 34)"),
        (CHROME, " Vivaldi/7.0.3495.27"),
        (CHROME, " Brave/131"),
        (CHROME, " Whale/4.29.282.14"),
        (CHROME, " NewlyMadeBrowser/1.0"),
        (CHROME, " YaBrowser/24.12.0.0 Yowser/2.5"),
        (CHROME, ",gzip(gfe)"),
        (CHROME, " SE 2.X MetaSr 1.0"),
        (CHROME, " LG Browser/8.00.00(LGE; 43UJ635V; 03.10.00; 1; DTV_W17H)"),
        (CHROME, " WebAppManager"),
        (
            CHROME,
            " NetType/WIFI MicroMessenger/7.0.20.1781(0x6700143B) WindowsWechat(0x63090551) XWEB/8555 Flue",
        ),
        (ANDROID, " (Ecosia android@101.0.4951.41)"),
        (IPHONE, " Ddg/17.4"),
        (
            "Mozilla/5.0 ",
            "(Linux; Android 13; SAMSUNG SM-S918B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/23.0 Chrome/115.0.0.0 Mobile Safari/537.36",
        ),
        (
            "Mozilla/5.0 ",
            "(Linux; Android 9; CUBOT_X19) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile Safari/537.36",
        ),
        (
            "Mozilla/5.0 ",
            "(Linux; Android 11; Zebra TC57) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
        ),
        (
            "Mozilla/5.0 ",
            "(iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/131.0.6778.73 Mobile/15E148 Safari/604.1",
        ),
        (
            "Mozilla/5.0 ",
            "(iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/133.0 Mobile/15E148 Safari/605.1.15",
        ),
        (
            "Mozilla/5.0 ",
            "(iPad; CPU OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) GSA/346.0 Mobile/15E148 Safari/604.1",
        ),
        ("Mozilla/5.0 ", "(Android 14; Mobile; rv:133.0) Gecko/133.0 Firefox/133.0"),
        ("Mozilla/5.0 ", "(Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko"),
        (
            "Mozilla/5.0 ",
            "(Mobile; Windows Phone 8.1; Android 4.0; ARM; Trident/7.0; Touch; rv:11.0; IEMobile/11.0; NOKIA; Lumia 520) like iPhone OS 7_0_3 Mac OS X AppleWebKit/537 (KHTML, like Gecko) Mobile Safari/537",
        ),
        (
            "Mozilla/5.0 ",
            "(SMART-TV; Linux; Tizen 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Version/5.0 TV Safari/537.36",
        ),
        ("Mozilla/5.0 ", "(PlayStation 4 3.11) AppleWebKit/537.73 (KHTML, like Gecko)"),
        (
            "Mozilla/5.0 ",
            "(Nintendo Switch; WifiWebAuthApplet) AppleWebKit/606.4 (KHTML, like Gecko) NF/6.0.1.15.4 NintendoBrowser/5.1.0.20393",
        ),
        (
            "Mozilla/5.0 ",
            "(X11; U; Linux i686; en-US; rv:1.9.2.13) Gecko/20101206 Ubuntu/10.10 (maverick) Firefox/3.6.13 (.NET CLR 3.5.30729)",
        ),
        (
            "Mozilla/5.0 ",
            "(Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Code/1.95.3 Chrome/128.0.6613.186 Electron/32.2.1 Safari/537.36",
        ),
        (
            IOS_VIEW,
            " [FBAN/FBIOS;FBAV/443.0.0.23.229;FBBV/542372417;FBDV/iPhone14,3;FBMD/iPhone;FBSN/iOS]",
        ),
        (
            IOS_VIEW,
            " Instagram 300.0.0.14.110 (iPhone14,3; iOS 17_0; en_US; en; scale=3.00; 1284x2778; 519006829; IABMV/1)",
        ),
        (IOS_VIEW, " Twitter for iPhone/9.66"),
        (IOS_VIEW, " Snapchat/12.53 (like Safari/8615, panda)"),
        (IOS_VIEW, " MicroMessenger/8.0.32(0x18002030) NetType/WIFI Language/en"),
        (IOS_VIEW, " SomeShop/7.1 (build 12)"),
        (
            IOS_VIEW,
            " musical_ly_28.0.0 JsSdk/2.0 NetType/WIFI Channel/App Store ByteLocale/en Region/US BytedanceWebview/d8a21c6",
        ),
        (ANDROID_VIEW, " [FB_IAB/FB4A;FBAV/443.0.0.23.229;]"),
        (ANDROID_VIEW, " SomeShop/7.1"),
        ("Mozilla/5.0 ", "(like zebra; not closed"),
        ("Mozilla/5.0 ", "(compatible; +https://zebra.example)"),
        ("Mozilla/5.0 ", "(compatible; Linux x86_64)"),
        ("Mozilla/5.0 ", "(X11; Linux x86_64; +https://zebra.example)"),
        ("Mozilla/4.0 ", "(compatible;)"),
        (CHROME, " (like Googlebot)"),
        (CHROME, " like Googlebot/2.1"),
        (CHROME, " (not Googlebot/2.1)"),
        (CHROME, " (+https://zebra.example)"),
        ("Mozilla/5.0", ""),
        ("Mozilla", ""),
    ] {
        named(&[(beginning, rest, "Mozilla")]);
    }
}

#[test]
fn browsers_with_a_name_of_their_own_keep_it() {
    named(&[
        (
            "Mozilla/4.0 ",
            "(compatible; MSIE 8.0; Windows NT 6.1; Trident/4.0; SLCC2; .NET CLR 2.0.50727; InfoPath.3)",
            "MSIE",
        ),
        (
            "Mozilla/5.0 ",
            "(compatible; MSIE 10.0; Windows NT 6.2; Trident/6.0; Touch; MDDCJS)",
            "MSIE",
        ),
        ("Mozilla/4.0 ", "(compatible; MSIE 6.0; Windows NT 5.1; en) Opera 8.50", "MSIE"),
        (
            "Mozilla/4.0 ",
            "(compatible; MSIE 7.0; Windows NT 5.1; Embedded Web Browser from: http://bsalsa.com/)",
            "MSIE",
        ),
        (
            "Mozilla/5.0 ",
            "(compatible; Konqueror/4.5; FreeBSD) KHTML/4.5.4 (like Gecko)",
            "Konqueror",
        ),
        ("Opera/9.80 ", "(Windows NT 6.1; U; en) Presto/2.12.388 Version/12.16", "Opera"),
        ("Nokia6230/2.0 ", "(04.44) Profile/MIDP-2.0 Configuration/CLDC-1.1", "Nokia6230"),
        ("Instagram ", "300.0.0.14.110 Android (30/11; 420dpi; 1080x2131)", "Instagram"),
    ]);
}

#[test]
fn nothing_usable_is_no_token() {
    named(&[
        ("", "", ""),
        ("", "   ", ""),
        ("", "(zebra)", ""),
        ("", "https://zebra.example", ""),
        ("", "[Zebra]", ""),
    ]);
    assert_eq!(product_token(b"\xFF\x00"), None);
}

/// With quadratic time this would not end.
#[test]
fn a_long_one_takes_time_in_proportion() {
    for piece in [
        "(",
        ")",
        ";",
        "[",
        "compatible;",
        "(compatible;",
        "a (b;",
        "+http://a ",
        "a@",
        "a ",
        "Yahoo! ",
        "(a;(",
        " Build/",
        "bot",
        "like ",
    ] {
        for beginning in
            ["Mozilla/5.0 ", "Mozilla/5.0 (", "Mozilla/5.0 [", "Mozilla/5.0 (compatible; "]
        {
            let user_agent = beginning.to_owned() + &piece.repeat((1 << 17) / piece.len());
            assert!(product_token(user_agent.as_bytes()).is_some(), "{piece}");
        }
    }
}

#[test]
fn the_lists_can_be_searched() {
    for list in [BROWSERS, SURROUNDINGS] {
        assert!(list.is_sorted() && list.iter().all(|word| *word == word.to_lowercase()));
    }
}
