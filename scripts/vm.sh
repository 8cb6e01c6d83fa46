#!/usr/bin/env bash
# vm.sh FOLDER PROGRAM...: runs the script `run` of FOLDER in a virtual machine with two processors, two memory nodes and devices as slow as
# wanted, which this machine does not have. There the programs are in the path and the folder is /share. Returns the script's status; what
# the machine prints goes to FOLDER/console. Everything is emulated: its processors are a tenth as fast, its timers keep their time.
# VM_SECONDS is how long it may take (900).
set -euo pipefail
# shellcheck source=scripts/debian.sh
. "$(dirname "$0")/debian.sh"
readonly vm_cache="${INNOKIT_SERVERS:-$HOME/.cache/innokit}/vm"
readonly vm_recipe=1 # raise it when the modules or the packages change
# What the machine can load: its disk controller's bus, the shared folder, a slow block device, a file system.
readonly vm_modules="drivers/virtio drivers/block/null_blk net/9p fs/9p fs/netfs fs/fscache fs/configfs fs/ext4 fs/jbd2 fs/mbcache.ko lib crypto arch/x86/crypto"

# The emulator, and Debian's kernel with those modules.
install_vm() {
    needs_debian
    if ! command -v qemu-system-x86_64 >/dev/null || ! command -v busybox >/dev/null || ! command -v cpio >/dev/null; then
        say "installing the emulator"
        apt-get -qq update || true # third parties' lists may fail; what matters is missed below
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends qemu-system-x86 busybox-static cpio >/dev/null ||
            die "apt could not install qemu-system-x86, busybox-static and cpio (is this root?)"
    fi
    [ "$(cat "$vm_cache/.stamp" 2>/dev/null)" = "$vm_recipe" ] && return 0
    local new="$vm_cache.new" package module
    say "fetching Debian's kernel (70 MB)"
    rm -rf "$new"
    private_apt "$new/apt" bookworm
    APT_CONFIG="$new/apt/apt.conf" apt-get -qq update
    package="$(APT_CONFIG="$new/apt/apt.conf" apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')"
    (cd "$new" && APT_CONFIG="$new/apt/apt.conf" apt-get -qq download "$package")
    dpkg-deb -x "$new/$package"_*.deb "$new/all"
    mkdir -p "$new/root/bin"
    cp "$new"/all/boot/vmlinuz-* "$new/kernel"
    (
        cd "$new/all"
        for module in $vm_modules; do find lib/modules/*/kernel/"$module" -name '*.ko'; done | cpio --quiet -pdm "$new/root"
    )
    cp "$(command -v busybox)" "$new/root/bin/busybox"
    printf '%s\n' "$vm_recipe" >"$new/.stamp"
    rm -rf "$new/all" "$new/apt" "$new"/*.deb "$vm_cache"
    mv "$new" "$vm_cache"
}

vm_run() {
    local share="$1" program library root
    shift
    root="$(mktemp -d)"
    cp -r "$vm_cache/root/." "$root"
    mkdir -p "$root"/{dev,proc,sys,tmp,share,mnt}
    for program in "$@"; do
        cp "$program" "$root/bin/"
        for library in $(ldd "$program" | grep -o '/[^ ]*'); do install -D "$library" "$root$library"; done
    done
    cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
depmod
modprobe virtio_pci
modprobe 9pnet_virtio
modprobe 9p
mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576 share /share
cd /share && sh ./run
echo $? >/share/status
sync
poweroff -f
INIT
    chmod +x "$root/init"
    (cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$share/machine.gz"
    rm -rf "$root" "$share/status"
    timeout "${VM_SECONDS:-900}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2048 \
        -object memory-backend-ram,size=1024M,id=near -object memory-backend-ram,size=1024M,id=far \
        -numa node,nodeid=0,cpus=0,memdev=near -numa node,nodeid=1,cpus=1,memdev=far \
        -kernel "$vm_cache/kernel" -initrd "$share/machine.gz" -append "console=ttyS0 panic=-1 mitigations=off" \
        -virtfs local,path="$share",mount_tag=share,security_model=none -nic none -display none -serial stdio -no-reboot \
        </dev/null >"$share/console" 2>&1 || true
    rm -f "$share/machine.gz"
    [ -e "$share/status" ] || die "the machine did not get as far as its script's end: $(tail -n 5 "$share/console")"
    return "$(cat "$share/status")"
}

install_vm
vm_run "$@"
