# The first process of a host. It makes the root file system: all files of this machine, but what
# the host changes is its own. $1 is a directory for it, $2 the host's name, $3 what the
# host must not see; then come pairs: a directory of this machine, and where the host has it.
set -eu
top=$1 name=$2 hidden=$3
shift 3
echo "$name" >/proc/sys/kernel/hostname
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$top/fs"
mkdir "$top/fs/up" "$top/fs/work" "$top/fs/root"
root=$top/fs/root
mount -t overlay -o "lowerdir=/,upperdir=$top/fs/up,workdir=$top/fs/work" overlay "$root"
rm -f "$root/etc/ld.so.preload"
while [ $# -gt 0 ]; do
	mkdir -p "$root$2"
	mount --bind -o ro "$1" "$root$2"
	shift 2
done
for d in "$hidden" /tmp /var/tmp /root /home /run /dev; do
	mkdir -p "$root$d"
	mount -t tmpfs -o mode=755 tmpfs "$root$d"
done
chmod 1777 "$root/tmp" "$root/var/tmp"
chmod 700 "$root/root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"

mkdir "$root/dev/pts" "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
i=0
for d in stdin stdout stderr; do
	ln -s "/proc/self/fd/$i" "$root/dev/$d"
	i=$((i + 1))
done
for d in null zero full random urandom tty; do
	: >"$root/dev/$d"
	mount --bind "/dev/$d" "$root/dev/$d"
done

cp -a "$top/files/." "$root/"
chown -R 1000:1000 "$root/home/user"
mkdir -p "$root/run/sshd" "$root/.old"
cd "$root"
pivot_root . .old
umount -l /.old
rmdir /.old
mount --bind /etc/boot_id /proc/sys/kernel/random/boot_id
cd /
ip link set lo up
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
unset TMPDIR HOME
echo ready
# Orphans become children of this shell, which waits for them.
while :; do
	/usr/sbin/sshd -D -e 2>>/var/log/sshd.log &
	wait $! || sleep 0.2
done
