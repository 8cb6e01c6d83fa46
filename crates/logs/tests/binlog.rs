//! Binary logs: servers' logs pass, every damaged bit is reported with its event, and an unclosed log is not damage.

#![expect(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

use std::sync::Arc;

use format::keyring::{KeyStore, Secret};
use innokit_logs::binlog::{Corruption, Error, Event, EventType, Summary, Tail, Verdict, Verifier, Why};
use proptest::prelude::*;

/// A complete log of MySQL 9.7.4, from start to clean shutdown.
const BY_MYSQL: &str = concat!(
    "fe62696edf07026b0f010000007b0000007f00000000000400392e372e342d32000000000000000000000000000000000000",
    "00000000000000000000000000000000000000000000000000df07026b13000d0008000000000400040000006300041a0800",
    "0000000000020000000a0a0a2a2a001234000a280000012991954ddf07026b23010000001f0000009e000000800000000000",
    "00000000ac78db01e107026b030100000017000000b500000000009aa4f8a9",
);

/// A complete log of MariaDB 10.11.19 with `binlog_checksum=NONE` and `log_bin_compress=ON`.
const BY_MARIADB_WITHOUT_CHECKSUMS: &str = concat!(
    "fe62696eef07026b0f01000000fc000000000100000000040031302e31312e31392d4d6172696144422d302b646562313275",
    "312d6c6f670000000000000000000000000000000000000000ef07026b13380d000800120004040404120000e400041a0800",
    "0000080808020000000a0a0a0000000000000a0a0a0000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000041304000d0808080a0a",
    "0a0045230b79ef07026ba301000000270000002701000000000100000000000000010000009c00000000000000ef07026ba1",
    "01000000240000004b01000000000d00000062696e6c6f672e303030303033ef07026ba20100000026000000710100000800",
    "9d00000000000000000000000c000000000000ef07026ba0010000003b000000ac0100000000696e7365727420696e746f20",
    "612862292073656c65637420622066726f6d2061206c696d69742039ef07026b130100000029000000d50100000000120000",
    "00000001000174000161000403fc030301040eef07026ba601000000b30000008802000000001200000000000100040f8216",
    "b3789cedd5bd0d02310c866123010330036d0e3b7fe4c639916406f66116b67241ee685245949cf4594ff9d5af753a105d89",
    "e8bed46825555342a946a48a496c8b615b1ffc3dd15b1bbf8f444f110080fd52eed317e6344c9fb4b13fade9b30000f023b5",
    "7d69675e86a5756dfcda4aeb0000e03fa9efc39e431c863db4f1e5bc86dd030000341abb3fe238e7d11ff90076e26d22ef07",
    "026b10010000001b000000a302000000000500000000000000ef07026b030100000013000000b60200000000",
);

/// Beginning of a log of MariaDB 10.11.19 with `encrypt_binlog=ON`: three events.
const BY_MARIADB_ENCRYPTED: &str = concat!(
    "fe62696ef107026b0f01000000fc000000000100000000040031302e31312e31392d4d6172696144422d302b646562313275",
    "312d6c6f6700000000000000000000000000000000000000000000000013380d000800120004040404120000e400041a0800",
    "0000080808020000000a0a0a0000000000000a0a0a0000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000041304000d0808080a0a",
    "0a017a55cfc2f107026ba4010000002800000028010000000001010000008df67c1559092e1639619ee6dce15980d6f71818",
    "4c2236a9982b0000007f7ec3b39c48ac2cd24b55dba265b20398a776290d5a8b8ded4471178f98",
);

/// Beginning of a log of MariaDB 10.11 with `encrypt_binlog=ON` and an `aes_cbc` key: six events, the log not closed.
const BY_MARIADB_CBC: &str = concat!(
    "fe62696e3734026b0f01000000fc000000000100000000040031302e31312e31392d4d6172696144422d302b646562313275",
    "312d6c6f6700000000000000000000000000000000000000003734026b13380d000800120004040404120000e400041a0800",
    "0000080808020000000a0a0a0000000000000a0a0a0000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000041304000d0808080a0a",
    "0a0146a179543734026ba401000000280000002801000000000101000000adb73408154b52c0ab1eef2096484d42f5d32167",
    "2d2fff73821d0000006b419daee27709901ba8821f3b5ee02463c394b6d5e7c6e16628000000747e4142992d7c7e9be1923d",
    "17c89d62eec209efe134ec5782c9a5d16628881e2082be632a000000e83f0fbb8a8704606db5ccb229c209309f5f2be1c210",
    "fda903fde2068e2e281ef972851d96ae57000000eeebdc666d879be4591df48091a38e5cd56d71e012bc31dc20fd57557d6f",
    "be2956745316e8cc71a8d1ece7108849f0d8ce8b1116421e04523bf94afe1b3da6a39dbf887409637d1f054a",
);

/// Beginning of a log of MariaDB 10.11 with `encrypt_binlog=ON` and an `aes_ctr` key: six events, the log not closed.
const BY_MARIADB_CTR: &str = concat!(
    "fe62696e3a34026b0f01000000fc000000000100000000040031302e31312e31392d4d6172696144422d302b646562313275",
    "312d6c6f6700000000000000000000000000000000000000003a34026b13380d000800120004040404120000e400041a0800",
    "0000080808020000000a0a0a0000000000000a0a0a0000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000041304000d0808080a0a",
    "0a01282612663a34026ba401000000280000002801000000000101000000d33efe8409058d13e164314c77508b55dbcfd48a",
    "a3c9930f601d0000004f7cbe908288236f44c21db1edc6befaf2b798a51dd9e2496328000000c9920442965a2d75e1ab2474",
    "31de696803ec09692aaa92e8dfeb9e0800ff2328bc1177b92a00000030a5d161d056d633da496fd9b6bf12545f7508d817b0",
    "317e867ad36ce22e935e731010a68c6957000000967707fc1b2eab772442610656f8597fda69bce4ec4dff69673d768206a7",
    "2a7bfb32001d518b4bdd79a51411528d457553359b8e914b147e0a8646315ed563888ccb29df08390da8a68f",
);

/// Header, without the zeros up to byte 512, of a log of MySQL 9.7 with `binlog_encryption=ON`.
const HEADER_BY_MYSQL_ENCRYPTED: &str = concat!(
    "fd62696e01013a4d7953514c5265706c69636174696f6e4b65795f37346561393063382d653630382d313166312d38636535",
    "2d3032666330303030303030315f3102c2d8a46ff81c9ad1f05172b46937b2339b243ca342bcc172cf7237a4dec9e5240336",
    "cd06bb49f05cda12a3ad7d38ceb674",
);

/// What follows it: five events, the log not closed.
const BY_MYSQL_ENCRYPTED: &str = concat!(
    "d8b6c8343742237c4b6ad85b2e8d8e8dbf488aa193ac8028d9dae59e280f43e82ab0c43d0fabea805a52d8a2e86bcef6731a",
    "685a79aa0fe1b39c627b254fef184997cfa36031b11ed991f4aa624d889fff87447d9fef5517c484d4e4fe1e0e875ea29e31",
    "182a365460de6c5712a73b0ed2a71d9fbc518a7d5d66c01d118fd175c19616348250b43772698979e172f90caa5f2c6e2508",
    "bff6dadd07f44ca1dbe15711725572f600d089b14bfbdddeb6ed04d24d9af8b5acccba5455fb01147f16c688855d4242dbca",
    "45b1bb0f9db725f008939d7fdd1a54dde049551ac1ea6faf196e0cf44529a4f178b59b0bcb5c945b19bd1b58f777953b915f",
    "fff0d6408ed48ac6136a841bb12cf249610bf41553680eb616c593d2d2a90d25ef8dd893c7aa2ce21b6dbd47dc457792c0ee",
    "906556b22c01bace3ed68935283a8d7e2b56d470079362a86bcbd79c358ae80a9981020af37cfd8f2b5526450a4d6c5056df",
    "f936f27a5116f72e5da222d50aa2bd8e5029575935e0fc3bb4879a13994484f8bc7aa159d473effea3a7f59fb1bcfc212254",
    "977d6d3244a9f59308360f37103421a16aff24df",
);

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn little(value: u32) -> impl Iterator<Item = u8> {
    value.to_be_bytes().into_iter().rev()
}

/// An event at `start`, with a checksum if requested. Its next position is `next`, or the right one if not given.
fn event(start: usize, code: u8, flags: u8, body: &[u8], checksum: bool, next: Option<u32>) -> Vec<u8> {
    let len = 19 + body.len() + if checksum { 4 } else { 0 };
    let next = next.unwrap_or(u32::try_from(start + len).unwrap());
    let mut event = vec![1, 2, 3, 4, code, 1, 0, 0, 0];
    event.extend(little(u32::try_from(len).unwrap()).chain(little(next)).chain([flags, 0]).chain(body.iter().copied()));
    if checksum {
        let sum = crc_fast::crc32_iso_hdlc(&event);
        event.extend(little(sum));
    }
    event
}

/// Body of a format description without algorithm and checksum.
fn description(version: &str, types: usize) -> Vec<u8> {
    let mut body = vec![4, 0];
    body.extend(version.bytes().chain(std::iter::repeat(0)).take(50));
    body.extend([0, 0, 0, 0, 19]);
    body.extend(std::iter::repeat_n(8, types));
    body
}

/// A log that begins with the given event, followed by two queries.
fn log_of(first: Vec<u8>, checksum: bool) -> Vec<u8> {
    let mut log = [b"\xFEbin".to_vec(), first].concat();
    for _ in 0..2 {
        log.extend(event(log.len(), 2, 0, b"a query of some length", checksum, None));
    }
    log
}

fn read_in_pieces(log: &[u8], piece: usize) -> Result<(Vec<Event>, Summary), Error> {
    let mut verifier = Verifier::new();
    let mut events = Vec::new();
    for mut piece in log.chunks(piece) {
        while let Some(event) = verifier.next_event(&mut piece)? {
            events.push(event);
        }
        assert!(piece.is_empty(), "all input is taken before more is asked for");
    }
    Ok((events, verifier.finish()?))
}

fn read(log: &[u8]) -> Result<(Vec<Event>, Summary), Error> {
    let whole = read_in_pieces(log, log.len().max(1));
    for piece in [1, 2, 5, 19, 64] {
        assert_eq!(read_in_pieces(log, piece), whole, "pieces of {piece} bytes");
    }
    whole
}

fn verdicts(log: &[u8]) -> Vec<Verdict> {
    read(log).unwrap().0.into_iter().map(|event| event.verdict).collect()
}

#[test]
fn what_mysql_writes_is_sound() {
    let (events, summary) = read(&hex(BY_MYSQL)).unwrap();
    let found: Vec<_> = events.iter().map(|event| (event.position, event.kind.unwrap().name().unwrap())).collect();
    assert_eq!(found, [(4, "format_description"), (127, "previous_gtids"), (158, "stop")]);
    assert_eq!((summary.ok, summary.events, summary.tail), (3, 3, Tail::Whole));
    assert_eq!(summary.format.as_ref().unwrap().server_version, "9.7.4-2");
    assert!(!summary.in_use && !summary.is_damaged());
}

#[test]
fn a_log_without_checksums_is_walked_and_not_called_sound() {
    let (events, summary) = read(&hex(BY_MARIADB_WITHOUT_CHECKSUMS)).unwrap();
    assert_eq!(events[0].verdict, Verdict::Ok, "the format description always has a checksum");
    assert!(events[1..].iter().all(|event| event.verdict == Verdict::NoChecksum));
    assert_eq!((summary.events, summary.no_checksum, summary.tail), (9, 8, Tail::Whole));
    assert!(events.iter().any(|event| event.kind.unwrap().name() == Some("write_rows_compressed_v1")));
}

#[test]
fn encrypted_events_of_mariadb_are_unverifiable() {
    let (events, summary) = read(&hex(BY_MARIADB_ENCRYPTED)).unwrap();
    assert_eq!(events[1].kind, Some(EventType::START_ENCRYPTION));
    let hidden = Event { position: 296, len: 43, kind: None, verdict: Verdict::Unverifiable(Why::Encrypted) };
    assert_eq!(events[2..], [hidden]);
    assert_eq!((summary.ok, summary.unverifiable, summary.corrupt), (2, 1, 0));
}

#[test]
fn every_damaged_bit_is_named_with_its_event_and_costs_no_other() {
    let sound = hex(BY_MYSQL);
    let (events, _) = read(&sound).unwrap();
    for at in 4..sound.len() {
        for bit in 0..8 {
            let in_use_flag = at == 4 + 17 && bit == 0;
            let mut log = sound.clone();
            log[at] ^= 1 << bit;
            let (found, summary) = read_in_pieces(&log, log.len()).unwrap();
            let hit = events.iter().find(|event| (at as u64) < event.position + u64::from(event.len)).unwrap();
            let named: Vec<_> =
                found.iter().filter(|e| matches!(e.verdict, Verdict::Corrupt(_))).map(|e| e.position).collect();
            let expected = if in_use_flag { vec![] } else { vec![hit.position] };
            assert_eq!(named, expected, "bit {bit} of byte {at}");
            assert_eq!(summary.events, 3, "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_damaged_length_is_proven_by_checksum_and_next_position() {
    let mut log = hex(BY_MYSQL);
    log[127 + 9] = 30;
    let damage = Verdict::Corrupt(Corruption::Length { stored: 30, actual: 31 });
    assert_eq!(verdicts(&log), [Verdict::Ok, damage, Verdict::Ok]);
}

#[test]
fn a_damaged_next_position_is_proven_by_checksum_and_length() {
    let mut log = hex(BY_MYSQL);
    log[127 + 13] = 0x9f;
    let damage = Verdict::Corrupt(Corruption::NextPosition { stored: 0x9f, actual: 0x9e });
    assert_eq!(verdicts(&log), [Verdict::Ok, damage, Verdict::Ok]);
}

#[test]
fn a_log_in_use_may_be_cut_anywhere_and_a_closed_one_may_not() {
    let mut log = hex(BY_MYSQL);
    for (flag, damaged) in [(1, false), (0, true)] {
        log[4 + 17] = flag;
        for cut in 128..158 {
            let (_, summary) = read(&log[..cut]).unwrap();
            assert_eq!(summary.tail, Tail::Cut { position: 127, present: cut as u64 - 127 });
            assert_eq!((summary.in_use, summary.is_damaged()), (flag == 1, damaged), "cut at {cut}");
        }
        assert!(!read(&log[..127]).unwrap().1.is_damaged());
    }
}

#[test]
fn zeros_behind_a_log_in_use_are_no_damage() {
    let mut log = hex(BY_MYSQL);
    log[4 + 17] = 1;
    log.extend([0; 100]);
    let (_, summary) = read(&log).unwrap();
    assert_eq!((summary.tail, summary.is_damaged()), (Tail::Zeros { position: 181, len: 100 }, false));
    log[250] = 1;
    let (_, summary) = read(&log).unwrap();
    assert_eq!((summary.tail, summary.is_damaged()), (Tail::Unexamined { position: 181, len: 100 }, true));
}

#[test]
fn zeros_behind_a_closed_log_are_damage() {
    let log = [hex(BY_MYSQL), vec![0; 100]].concat();
    let (events, summary) = read(&log).unwrap();
    assert_eq!(events[3].verdict, Verdict::Corrupt(Corruption::NoEvent { code: 0, len: 0 }));
    assert_eq!((summary.tail, summary.is_damaged()), (Tail::Unexamined { position: 181, len: 100 }, true));
}

#[test]
fn a_relay_log_keeps_the_positions_of_the_source() {
    for relay_flag in [0x40, 0] {
        let body = [description("8.4.3", 41), vec![1]].concat();
        let mut log = [b"\xFEbin".to_vec(), event(4, 15, relay_flag, &body, true, None)].concat();
        for next in [900_u32, 1000, 0, 40] {
            log.extend(event(log.len(), 2, 0, b"from the source", true, Some(next)));
        }
        assert_eq!(verdicts(&log), [Verdict::Ok; 5], "flag {relay_flag}");
    }
}

#[test]
fn a_second_format_description_decides_for_what_follows() {
    let with = [description("8.4.3", 41), vec![1]].concat();
    let without = [description("8.4.3", 41), vec![0]].concat();
    let mut log = log_of(event(4, 15, 0, &with, true, None), true);
    log.extend(event(log.len(), 15, 0, &without, true, None));
    log.extend(event(log.len(), 2, 0, b"plain", false, None));
    assert_eq!(verdicts(&log), [Verdict::Ok, Verdict::Ok, Verdict::Ok, Verdict::Ok, Verdict::NoChecksum]);
}

#[test]
fn logs_of_servers_from_before_checksums_have_none() {
    let log = log_of(event(4, 15, 0, &description("5.5.62-log", 27), false, None), false);
    assert_eq!(verdicts(&log), [Verdict::NoChecksum; 3]);
}

#[test]
fn a_damaged_version_does_not_make_the_checksums_go_away() {
    let mut log = log_of(event(4, 15, 0, &[description("8.4.3", 41), vec![1]].concat(), true, None), true);
    log[4 + 21] = b'1';
    let found = verdicts(&log);
    assert!(matches!(found[0], Verdict::Corrupt(Corruption::Checksum { .. })), "{found:?}");
    assert_eq!(found[1..], [Verdict::Ok, Verdict::Ok]);
}

#[test]
fn the_header_of_a_log_that_mysql_encrypted_is_understood() {
    let mut file = b"\xFDbin\x01\x01\x05key_1\x02".to_vec();
    file.extend([7; 32]);
    file.push(3);
    file.extend([9; 16]);
    file.resize(512, 0);
    file.extend([0xAA; 88]);
    let mut verifier = Verifier::new();
    assert_eq!(verifier.next_event(&mut file.as_slice()), Ok(None));
    let header = verifier.encrypted_header().unwrap().clone();
    assert_eq!((header.key_id.as_str(), header.encrypted_password, header.iv), ("key_1", [7; 32], [9; 16]));
    let summary = read(&file).unwrap().1;
    assert_eq!((summary.events, summary.tail), (0, Tail::Encrypted { position: 512, len: 88 }));
    file[4] = 2;
    assert_eq!(read(&file), Err(Error::EncryptionHeader));
    assert_eq!(read(&file[..300]), Err(Error::TooShort { len: 300 }));
}

#[test]
fn what_is_no_binary_log_is_refused() {
    assert_eq!(read(b"\xFEbix and more"), Err(Error::NotBinlog));
    assert_eq!(read(b"\xFEb"), Err(Error::TooShort { len: 2 }));
    assert_eq!(read(b""), Err(Error::TooShort { len: 0 }));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic_and_alike_in_any_pieces(
        noise in proptest::collection::vec(any::<u8>(), 0..300), at in 4usize..181, piece in 1usize..40,
    ) {
        let mut log = hex(BY_MYSQL);
        log.splice(at..at, noise);
        prop_assert_eq!(read_in_pieces(&log, piece), read_in_pieces(&log, log.len()));
    }
}

fn keys(mysql: &str, mariadb: &str) -> Arc<KeyStore> {
    let mut keys = KeyStore::new();
    keys.insert_named("MySQLReplicationKey_74ea90c8-e608-11f1-8ce5-02fc00000001_1", Secret::new(hex(mysql)));
    keys.insert_numbered(1, 1, Secret::new(hex(mariadb)));
    Arc::new(keys)
}

fn right_keys() -> Arc<KeyStore> {
    keys("4168549F57274A4A56F3C1D8D04BB16B13E1865D834F8A65B5807F9709DD510B", "770A8A65DA156D24EE2A093277530142")
}

fn read_with(log: &[u8], piece: usize, keys: &Arc<KeyStore>) -> Result<(Vec<Event>, Summary), Error> {
    let mut verifier = Verifier::with_keys(Arc::clone(keys));
    let mut events = Vec::new();
    for mut piece in log.chunks(piece) {
        while let Some(event) = verifier.next_event(&mut piece)? {
            events.push(event);
        }
        assert!(piece.is_empty());
    }
    verifier.end()?;
    while let Some(event) = verifier.next_event(&mut &[][..])? {
        events.push(event);
    }
    Ok((events, verifier.finish()?))
}

fn encrypted_by_mysql() -> Vec<u8> {
    let mut log = hex(HEADER_BY_MYSQL_ENCRYPTED);
    log.resize(512, 0);
    log.extend(hex(BY_MYSQL_ENCRYPTED));
    log
}

/// Encrypted logs, the offsets of their events, and the first encrypted byte.
fn encrypted() -> [(Vec<u8>, Vec<u64>, usize); 3] {
    let by_mariadb = || vec![4, 256, 296, 325, 365, 407];
    [
        (hex(BY_MARIADB_CBC), by_mariadb(), 296),
        (hex(BY_MARIADB_CTR), by_mariadb(), 296),
        (encrypted_by_mysql(), [4, 127, 158, 235, 343].map(|position| position + 512).to_vec(), 516),
    ]
}

#[test]
fn encrypted_logs_are_verified_with_their_keys_in_any_pieces() {
    for (log, positions, _) in encrypted() {
        let (events, summary) = read_with(&log, log.len(), &right_keys()).unwrap();
        assert_eq!(events.iter().map(|event| event.position).collect::<Vec<_>>(), positions);
        assert_eq!((summary.ok, summary.events), (positions.len() as u64, positions.len() as u64));
        assert_eq!((summary.tail, summary.missing_key.clone()), (Tail::Whole, None));
        for piece in 1..100 {
            assert_eq!(read_with(&log, piece, &right_keys()), Ok((events.clone(), summary.clone())), "{piece}");
        }
        for len in 512..log.len() {
            let (found, summary) =
                read_with(&log[..len], 64, &right_keys()).unwrap_or_else(|_| (events.clone(), summary.clone()));
            assert!(found.iter().all(|event| event.verdict == Verdict::Ok), "{len} bytes");
            assert_eq!(summary.corrupt, 0);
        }
    }
}

#[test]
fn every_damaged_bit_of_an_encrypted_event_is_named_with_it() {
    for (sound, positions, from) in encrypted() {
        for at in from..sound.len() {
            let hit = *positions.iter().rfind(|position| **position <= at as u64).unwrap();
            for bit in 0..8 {
                let mut log = sound.clone();
                log[at] ^= 1 << bit;
                let (found, _) = read_with(&log, log.len(), &right_keys()).unwrap();
                let named = found.iter().find(|event| matches!(event.verdict, Verdict::Corrupt(_)));
                // Only the flag of a log in use may change.
                let in_use_flag = hit == 516 && at == 516 + 17 && bit == 0;
                assert_eq!(named.map(|event| event.position), (!in_use_flag).then_some(hit), "bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn a_wrong_key_of_a_log_is_an_error_and_a_missing_one_is_named() {
    let wrong = keys(&"11".repeat(32), &"22".repeat(16));
    let mut other = KeyStore::new();
    other.insert_named("another", Secret::new(vec![7; 32]));
    let other = Arc::new(other);
    for (log, ..) in encrypted() {
        assert!(matches!(read_with(&log, 100, &wrong), Err(Error::WrongKey { .. })));
        let (events, summary) = read_with(&log, 100, &other).unwrap();
        let without = read(&log).unwrap();
        assert_eq!((events, &summary), (without.0, &without.1));
        assert!(summary.missing_key.is_some() && summary.corrupt == 0);
    }
}

proptest! {
    #[test]
    fn any_bytes_of_an_encrypted_log_are_judged_without_panic_and_alike_in_any_pieces(
        noise in proptest::collection::vec(any::<u8>(), 1..80), at in 256usize..900, piece in 1usize..300, which in 0usize..3,
    ) {
        let (mut log, ..) = encrypted().into_iter().nth(which).unwrap();
        let at = at.min(log.len() - 1);
        let end = (at + noise.len()).min(log.len());
        log[at..end].copy_from_slice(&noise[..end - at]);
        prop_assert_eq!(read_with(&log, piece, &right_keys()), read_with(&log, log.len(), &right_keys()));
    }
}
