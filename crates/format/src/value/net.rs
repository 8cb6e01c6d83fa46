//! MariaDB's UUID, INET6 and INET4.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::digits::write_display;

/// The sixteen bytes of a UUID in written order. UUIDs of versions 1 to 5 are stored with their groups swapped, so that those from one
/// machine are adjacent. The stored bytes tell which ones are: the variant, whose top bit is set, then comes before the version.
#[must_use]
pub const fn uuid(stored: [u8; 16]) -> [u8; 16] {
    let [_, _, _, _, _, _, variant, _, version, ..] = stored;
    // The server's own test, which also takes a version byte of 0x80 for swapped.
    if variant & version.wrapping_neg() & 0x80 != 0 { old_uuid(stored) } else { stored }
}

/// The same for a table that stores all of them swapped.
#[must_use]
pub const fn old_uuid(stored: [u8; 16]) -> [u8; 16] {
    let [a0, a1, a2, a3, a4, a5, b0, b1, c0, c1, d0, d1, e0, e1, e2, e3] = stored;
    [e0, e1, e2, e3, d0, d1, c0, c1, b0, b1, a0, a1, a2, a3, a4, a5]
}

/// `123e4567-e89b-12d3-a456-426655440000`.
pub fn write_uuid(uuid: [u8; 16], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (number, byte) in uuid.iter().enumerate() {
        if matches!(number, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend([byte >> 4, byte & 15].iter().filter_map(|digit| HEX.get(usize::from(*digit))));
    }
}

/// Writes the address as the server does: the longest run of zeros omitted, even if it is a single one, and the end of a mapped or
/// compatible address in IPv4 form.
pub fn write_inet6(address: [u8; 16], out: &mut Vec<u8>) {
    let [.., a, b, c, d] = address;
    let groups = Ipv6Addr::from(address).segments();
    match groups {
        // `::1` and the like are not IPv4 addresses.
        [0, 0, 0, 0, 0, 0, high, _] if high != 0 => out.extend_from_slice(b"::"),
        [0, 0, 0, 0, 0, 0xFFFF, ..] => out.extend_from_slice(b"::ffff:"),
        _ => return write_groups(&groups, out),
    }
    write_inet4([a, b, c, d], out);
}

fn write_groups(groups: &[u16; 8], out: &mut Vec<u8>) {
    let (start, len) = longest_zeros(groups);
    for (number, group) in groups.iter().enumerate() {
        let is_omitted = (start..start + len).contains(&number);
        if number == start && len > 0 {
            out.extend_from_slice(b"::");
        } else if !is_omitted {
            if number > 0 && number != start + len {
                out.push(b':');
            }
            write_display(&format_args!("{group:x}"), out);
        }
    }
}

/// Where the longest run of zeros starts, and its length; the first of equal ones.
fn longest_zeros(groups: &[u16; 8]) -> (usize, usize) {
    let (mut longest, mut run) = ((0, 0), 0);
    for (number, group) in groups.iter().enumerate() {
        run = if *group == 0 { run + 1 } else { 0 };
        if run > longest.1 {
            longest = (number + 1 - run, run);
        }
    }
    longest
}

/// `192.168.1.2`.
pub fn write_inet4(address: [u8; 4], out: &mut Vec<u8>) {
    write_display(&Ipv4Addr::from(address), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_in_its_own_order() {
        let stored = [0x42, 0x66, 0x55, 0x44, 0, 0, 0xa4, 0x56, 0x12, 0xd3, 0xe8, 0x9b, 0x12, 0x3e, 0x45, 0x67];
        let mut out = Vec::new();
        write_uuid(uuid(stored), &mut out);
        assert_eq!(out, b"123e4567-e89b-12d3-a456-426655440000");
        let v7 = [0x01, 0x89, 0x0a, 0x5d, 0xac, 0x96, 0x77, 0x4b, 0xbc, 0xce, 0xb3, 0x02, 0x09, 0x9a, 0x80, 0x57];
        assert_eq!(uuid(v7), v7);
        assert_eq!(old_uuid(stored), uuid(stored));
        assert_ne!(old_uuid(v7), v7);
        // Version 8, and what only looks like a version.
        for version in [0x81, 0x8f, 0xc0, 0xff] {
            let mut other = v7;
            (other[6], other[8]) = (version, 0xbc);
            assert_eq!(uuid(other), other);
        }
    }

    #[test]
    fn addresses_are_written_as_mariadb_shows_them() {
        // Its server shortens a single zero too, which RFC 5952 forbids.
        let pairs = [
            ("2001:db8:0:1:2:3:4:5", "2001:db8::1:2:3:4:5"),
            ("0:1:0:2:0:3:0:4", "::1:0:2:0:3:0:4"),
            ("1:2:3:4:5:6:7:0", "1:2:3:4:5:6:7::"),
            ("1:0:0:2:0:0:3:4", "1::2:0:0:3:4"),
            ("1:0:2:0:0:0:3:4", "1:0:2::3:4"),
            ("::", "::"),
            ("::1", "::1"),
            ("::1:2", "::0.1.0.2"),
            ("::ffff:0:0", "::ffff:0.0.0.0"),
            ("::ffff:1:2:3", "::ffff:1:2:3"),
            ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ];
        for (address, shown) in pairs {
            let address: Ipv6Addr = address.parse().expect(address);
            let mut out = Vec::new();
            write_inet6(address.octets(), &mut out);
            assert_eq!(String::from_utf8(out).as_deref(), Ok(shown));
        }
    }
}
