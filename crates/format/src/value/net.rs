//! MariaDB's UUID, INET6 and INET4.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::digits::write_display;

/// The sixteen bytes of a UUID in written order. Most are stored with their groups swapped, so that UUIDs from one machine are adjacent.
#[must_use]
pub const fn uuid(stored: [u8; 16]) -> [u8; 16] {
    let [a0, a1, a2, a3, a4, a5, b0, b1, c0, c1, d0, d1, e0, e1, e2, e3] = stored;
    if b0 & 0x80 != 0 && c0 != 0 { [e0, e1, e2, e3, d0, d1, c0, c1, b0, b1, a0, a1, a2, a3, a4, a5] } else { stored }
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

/// Writes the address as the server does: the longest run of zeros omitted, the end of a mapped or compatible address in IPv4 form.
pub fn write_inet6(address: [u8; 16], out: &mut Vec<u8>) {
    let address = Ipv6Addr::from(address);
    match address.segments() {
        // `::1` and the like are not IPv4 addresses.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            out.extend_from_slice(b"::");
            write_inet4([a, b, c, d], out);
        }
        _ => write_display(&address, out),
    }
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
    }
}
