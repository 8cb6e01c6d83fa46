//! Types, and random values of them as SQL.

use std::fmt::Write;

use super::Choices;

/// A column and how to make values for it.
pub struct Column {
    /// Its type.
    pub declared: String,
    pub value: Box<dyn Fn(&mut Choices) -> String>,
}

fn column(declared: impl Into<String>, value: impl Fn(&mut Choices) -> String + 'static) -> Column {
    Column { declared: declared.into(), value: Box::new(value) }
}

const CHARSETS: [&str; 23] = [
    "utf8mb4", "utf8mb3", "latin1", "latin2", "ucs2", "utf16", "utf16le", "utf32", "gbk", "sjis", "cp932", "big5",
    "euckr", "gb2312", "ujis", "eucjpms", "koi8r", "cp1251", "greek", "hebrew", "tis620", "cp850", "ascii",
];
/// Code point ranges of several scripts.
const SCRIPTS: [(u32, u32); 13] = [
    (0x20, 0x7e),
    (0, 0x1f),
    (0xa0, 0xff),
    (0x100, 0x24f),
    (0x370, 0x3ff),
    (0x400, 0x4ff),
    (0x4e00, 0x9fa5),
    (0xac00, 0xd7a3),
    (0x3040, 0x30ff),
    (0xff01, 0xffee),
    (0x1f300, 0x1f5ff),
    (0xe000, 0xf8ff),
    (0x20000, 0x2a6d6),
];

/// Every type of the server.
pub fn every_type(kind: &str, random: &mut Choices) -> Vec<Column> {
    let is_mysql = kind.starts_with("mysql");
    let mut columns = numbers(random);
    columns.extend(moments(kind));
    for bits in [1, 7, 8, 9, 33, 64] {
        columns.push(column(format!("BIT({bits})"), move |random| bounded(random, bits).to_string()));
    }
    let members: Vec<String> = (0..300).map(|number| format!("'e{number}'")).collect();
    columns.push(column(format!("ENUM('a\\'b','日本','tab\\tx','back\\\\s',{})", members.join(",")), |random| {
        (1 + random.below(304)).to_string()
    }));
    columns.push(column("ENUM('x','y')", |random| random.pick(&["'x'", "'y'", "'neither'"]).to_owned()));
    columns.push(column(format!("SET({})", members[..64].join(",")), |random| random.number().to_string()));
    for charset in CHARSETS.iter().copied().chain(has_json(kind).then_some("gb18030")) {
        columns.push(column(format!("CHAR(24) CHARACTER SET {charset}"), text));
        columns.push(column(format!("VARCHAR(40) CHARACTER SET {charset}"), text));
    }
    columns.push(column("BINARY(20)", |random| bytes(random, 20)));
    columns.push(column("VARBINARY(300)", |random| bytes(random, 300)));
    columns.push(column("BLOB", |random| bytes(random, 40_000)));
    columns.push(column("TEXT", |random| format!("REPEAT({}, {})", text(random), random.pick(&[&1, &2, &400]))));
    columns.push(column("GEOMETRY", geometry));
    if is_mysql {
        columns.extend(has_json(kind).then(|| column("JSON", json)));
    } else {
        columns.push(column("INET6", inet6));
        columns.push(column("VARCHAR(500) COMPRESSED", |random| format!("LEFT(REPEAT({}, 9), 400)", text(random))));
    }
    if matches!(kind, "mariadb" | "mariadb114" | "mariadb118") {
        columns.push(column("UUID", uuid));
        columns.push(column("INET4", |random| format!("INET_NTOA({})", random.number() as u32)));
    }
    columns
}

/// JSON is a type of MySQL since 5.7, and with it came a charset.
fn has_json(kind: &str) -> bool {
    kind.starts_with("mysql") && kind != "mysql56"
}

/// A type with short values. Together these are the types that ALTER treats in different ways.
pub fn short(kind: &str, random: &mut Choices) -> Column {
    let number = random.below(18);
    match number {
        0 => column("INT", |random| (random.number() as i32).to_string()),
        1 => column("TINYINT UNSIGNED", |random| bounded(random, 8).to_string()),
        2 => column("BIGINT", |random| (random.number() as i64).to_string()),
        3 => column(format!("CHAR({})", random.pick(&[&1, &10, &60, &255])), |random| {
            random.pick(&["'x'", "''"]).to_owned()
        }),
        4 => column("CHAR(10)", |random| random.pick(&["'abc'", "'ééé'", "'日本語日本語日本語日'"]).to_owned()),
        5 => column("CHAR(9) CHARACTER SET utf16", |random| random.pick(&["'abc'", "''"]).to_owned()),
        6 => column(format!("VARCHAR({})", random.pick(&[&1, &20, &63, &64, &255])), |random| {
            random.pick(&["''", "'a'", "'é'"]).to_owned()
        }),
        7 => column(format!("VARCHAR({})", random.pick(&[&300, &1000])), |random| {
            format!("REPEAT('{}', {})", random.pick(&["a", "b"]), random.below(300))
        }),
        8 => column("DECIMAL(12,3)", |random| decimal(random, 12, 3)),
        9 => column("DATE", |random| format!("'2{:03}-01-1{}'", random.below(1000), random.below(10))),
        10 => column("DATETIME(3)", |random| format!("'2020-01-01 00:00:{:02}.123'", random.below(60))),
        11 => column("TEXT", |random| format!("REPEAT('t', {})", random.pick(&[&0, &50, &400, &3000, &9000]))),
        12 => column("BLOB", |random| format!("REPEAT('b', {})", random.pick(&[&0, &50, &6000, &40_000]))),
        13 => column("ENUM('a','b','c')", |random| random.pick(&["'a'", "'c'"]).to_owned()),
        14 => column("DOUBLE", |random| (random.below(1000) as f64 / 8.0).to_string()),
        15 => column("VARBINARY(40)", |random| bytes(random, 40)),
        16 => column("TIME(2)", |random| format!("'-01:02:03.{:02}'", random.below(100))),
        _ if has_json(kind) => column("JSON", |random| format!("JSON_ARRAY({}, 'x')", random.below(1000))),
        _ if kind == "mysql56" => column("VARCHAR(200)", |random| format!("REPEAT('z', {})", random.below(200))),
        _ => column("VARCHAR(200) COMPRESSED", |random| format!("REPEAT('z', {})", random.below(200))),
    }
}

fn numbers(random: &mut Choices) -> Vec<Column> {
    let mut columns = Vec::new();
    for (name, bits) in [("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)] {
        columns.push(column(name, move |random| {
            let least = -(1_i128 << (bits - 1));
            let any = least + i128::from(bounded(random, bits));
            [least, -1 - least, any][random.below(3)].to_string()
        }));
        columns.push(column(format!("{name} UNSIGNED"), move |random| bounded(random, bits).to_string()));
        let digits = 1 + random.below(20);
        columns.push(column(format!("{name}({digits}) ZEROFILL"), move |random| bounded(random, bits).to_string()));
    }
    columns.push(column("FLOAT", float));
    columns.push(column("DOUBLE", double));
    columns.push(column("DOUBLE ZEROFILL", |random| double(random).trim_start_matches('-').to_owned()));
    for (declared, limit) in
        [("FLOAT(7,3)", 9999.0), ("DOUBLE(15,5)", 9e8), ("DOUBLE(53,30)", 9.0), ("FLOAT(30,20)", 9.0)]
    {
        columns.push(column(declared, move |random| {
            ((random.number() as f64 / u64::MAX as f64 - 0.5) * limit).to_string()
        }));
    }
    for (precision, scale) in
        [(1, 0), (9, 0), (10, 0), (9, 9), (10, 10), (18, 9), (19, 10), (38, 0), (38, 30), (65, 30), (65, 0)]
    {
        columns.push(column(format!("DECIMAL({precision},{scale})"), move |random| decimal(random, precision, scale)));
    }
    columns.push(column("DECIMAL(20,5) ZEROFILL", |random| decimal(random, 20, 5).trim_start_matches('-').to_owned()));
    columns
}

fn moments(kind: &str) -> Vec<Column> {
    // Timestamps end in 2038, or since MariaDB 11.5 in 2106.
    let last: u64 = if kind == "mariadb118" { u32::MAX.into() } else { i32::MAX as u64 };
    let mut columns = vec![
        column("DATE", |random| format!("'{}'", date(random))),
        column("YEAR", |random| [0, 1901, 2155, 1901 + random.below(255)][random.below(4)].to_string()),
    ];
    for digits in 0..=6_usize {
        columns.push(column(format!("TIME({digits})"), move |random| {
            let most = if random.chance(50) { 838 } else { 2 };
            let (sign, hours) = (random.pick(&["", "-"]), random.below(most));
            format!("'{sign}{hours:02}:{}'", seconds(random, digits))
        }));
        columns.push(column(format!("DATETIME({digits})"), move |random| {
            format!("'{} {:02}:{}'", date(random), random.below(24), seconds(random, digits))
        }));
        columns.push(column(format!("TIMESTAMP({digits}) NULL"), move |random| match random.below(4) {
            0 => "'0000-00-00 00:00:00'".to_owned(),
            1 => format!("FROM_UNIXTIME({last})"),
            _ => format!("FROM_UNIXTIME({}.{:06})", 1 + random.number() % (last - 1), random.below(1_000_000)),
        }));
    }
    columns
}

/// Minutes, seconds and a fraction.
fn seconds(random: &mut Choices, digits: usize) -> String {
    let fraction = format!("{:06}", random.below(1_000_000));
    let point = if digits > 0 { "." } else { "" };
    format!("{:02}:{:02}{point}{}", random.below(60), random.below(60), &fraction[..digits])
}

fn date(random: &mut Choices) -> String {
    match random.below(8) {
        0 => "0000-00-00".to_owned(),
        1 => random.pick(&["9999-12-31", "1000-01-01", "0001-01-01", "1970-01-01", "2000-02-29"]).to_owned(),
        2 => format!("{:04}-{:02}-{:02}", random.below(10_000), random.below(13), random.below(32)),
        _ => format!("{:04}-{:02}-{:02}", 1000 + random.below(9000), 1 + random.below(12), 1 + random.below(28)),
    }
}

/// A number of that many bits: a random one, the least or the greatest.
fn bounded(random: &mut Choices, bits: u32) -> u64 {
    let most = u64::MAX >> (64 - bits);
    [0, most, random.number() & most, random.number() & most][random.below(4)]
}

fn float(random: &mut Choices) -> String {
    let number = f32::from_bits(random.number() as u32);
    if number.is_finite() && random.chance(50) { format!("{number:e}") } else { double(random) }
}

fn double(random: &mut Choices) -> String {
    let number = f64::from_bits(random.number());
    match random.below(4) {
        0 if number.is_finite() => format!("{number:e}"),
        1 => format!("{}e{}", random.pick(&["1", "5", "1.25", "-9.99999", "0.1"]), random.below(40) as i32 - 20),
        2 => format!("{}e0", random.number() as i64 >> random.below(64)),
        _ => format!("{}", (random.number() as f64 / u64::MAX as f64 - 0.5) * 2000.0),
    }
}

fn decimal(random: &mut Choices, precision: usize, scale: usize) -> String {
    let len = random.below(precision + 1);
    let digits: String = (0..len).map(|_| char::from(b"00999123456789"[random.below(14)])).collect();
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{}{whole}{}{fraction}", random.pick(&["", "-"]), if scale > 0 { "." } else { "" })
}

fn hex(bytes: impl Iterator<Item = u8>) -> String {
    bytes.fold("x'".to_owned(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string");
        hex
    }) + "'"
}

fn bytes(random: &mut Choices, most: usize) -> String {
    let len = if random.chance(30) { 0 } else { random.below(most + 1) };
    hex((0..len).map(|_| random.number() as u8))
}

fn letters(random: &mut Choices) -> String {
    let (mut script, mut out) = (SCRIPTS[random.below(SCRIPTS.len())], String::new());
    for _ in 0..*random.pick(&[&0, &1, &2, &5, &20]) {
        if random.chance(30) {
            script = SCRIPTS[random.below(SCRIPTS.len())];
        }
        let code = script.0 + random.below((script.1 - script.0 + 1) as usize) as u32;
        out.extend(char::from_u32(code));
    }
    out + random.pick(&["", "", "", " ", "   "])
}

fn text(random: &mut Choices) -> String {
    format!("CONVERT({} USING utf8mb4)", hex(letters(random).bytes()))
}

/// Mostly documents that a client could send. Some contain values that only the server can make.
fn json(random: &mut Choices) -> String {
    match random.below(8) {
        0 => format!("CAST(TIMESTAMP'2020-02-03 {:02}:{}' AS JSON)", random.below(24), seconds(random, 6)),
        1 => format!(
            "JSON_ARRAY(CAST('-{:02}:{}' AS TIME(6)), {})",
            random.below(800),
            seconds(random, 6),
            double(random)
        ),
        2 => format!("JSON_OBJECT('d', CAST({} AS DECIMAL(65,30)))", decimal(random, 65, 30)),
        3 => format!("JSON_ARRAY(CAST({} AS BINARY), b'1011', DATE'2021-03-04')", bytes(random, 200)),
        _ => {
            let mut document = String::new();
            json_value(random, 0, &mut document);
            format!("CAST(CONVERT({} USING utf8mb4) AS JSON)", hex(document.bytes()))
        }
    }
}

fn json_value(random: &mut Choices, depth: usize, out: &mut String) {
    match random.below(if depth < 4 { 8 } else { 6 }) {
        0 => out.push_str(random.pick(&["null", "true", "false"])),
        1 => write!(out, "{}", random.below(80_000) as i64 - 40_000).expect("a string"),
        2 => write!(out, "{}", random.number() as i64).expect("a string"),
        3 => write!(out, "{}", random.number()).expect("a string"),
        4 => out.push_str(random.pick(&[
            "0.0",
            "-0.0",
            "1e300",
            "1.5",
            "100.0",
            "1e15",
            "1e16",
            "1e17",
            "123456789012345680.0",
        ])),
        5 => json_string(random, out),
        6 => {
            out.push('[');
            for number in 0..random.below(5) {
                out.push_str(if number > 0 { "," } else { "" });
                json_value(random, depth + 1, out);
            }
            out.push(']');
        }
        _ => {
            out.push('{');
            for number in 0..random.below(5) {
                out.push_str(if number > 0 { "," } else { "" });
                json_string(random, out);
                out.push(':');
                json_value(random, depth + 1, out);
            }
            out.push('}');
        }
    }
}

fn json_string(random: &mut Choices, out: &mut String) {
    let text = letters(random).repeat(*random.pick(&[&1, &1, &1, &20]));
    out.push_str(&serde_json::to_string(&text).expect("a string"));
}

fn point(random: &mut Choices) -> String {
    let mut half = |limit: f64| (random.number() as f64 / u64::MAX as f64 - 0.5) * limit;
    format!("{} {}", half(340.0), half(160.0))
}

fn geometry(random: &mut Choices) -> String {
    let (a, b, c) = (point(random), point(random), point(random));
    let shape = match random.below(6) {
        0 => format!("POINT({a})"),
        1 => format!("LINESTRING({a},{b},{c})"),
        2 => format!("POLYGON(({a},{b},{c},{a}))"),
        3 => format!("MULTIPOINT({a},{b})"),
        4 => format!("MULTIPOLYGON((({a},{b},{c},{a})),(({c},{b},{a},{c})))"),
        _ => format!("GEOMETRYCOLLECTION(POINT({a}),LINESTRING({b},{c}))"),
    };
    format!("ST_GeomFromText('{shape}', {})", random.pick(&[&0, &3857]))
}

fn inet6(random: &mut Choices) -> String {
    let groups: Vec<String> = (0..8)
        .map(|_| {
            let any = random.number() as u16;
            format!("{:x}", [0, 0, 0, any, any & 15, 0xffff][random.below(6)])
        })
        .collect();
    format!("'{}'", groups.join(":"))
}

fn uuid(random: &mut Choices) -> String {
    let hex = format!("{:016x}{:016x}", random.number() >> random.pick(&[&0, &40]), random.number());
    format!("'{}-{}-{}-{}-{}'", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
