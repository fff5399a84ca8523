package launchers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"launch/lab/netns"
)

// standIn is an ssh to the other host of the lab, since a real sshd would need accounts and keys. horovodrun has the
// host after the first options and before the others.
const standIn = `#!/bin/sh
host=
while [ $# -gt 0 ]; do
	case $1 in
	-o | -p | -i) shift 2 ;;
	*)
		[ -z "$host" ] || break
		host=$1
		shift
		;;
	esac
done
own=$(ip netns identify $$)
exec ip netns exec "${own%-*}-$host" unshare --uts sh -c 'echo "$0" >/proc/sys/kernel/hostname && exec sh -c "$1"' \
	"$host" "$*"
`

// Horovod's processes find each other by horovodrun alone: launch refuses it on several nodes, warns about its script
// there, and starts the line that the error has on the head node.
func TestHorovodrunRunsOnceOnTheHead(t *testing.T) {
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte(standIn), 0o755); err != nil {
		t.Fatal(err)
	}
	h := hosts{lab: netns.New(t, 2), path: bin + ":" + installed(t, "horovod"), temp: temp(t)}
	job := []string{launchBin, "--nnodes", "2", "--store", "host0"}

	for _, s := range h.run(t, append(job, "python", filepath.Join(data, "horo.py"))) {
		if s.code != 0 || !strings.Contains(s.out, "rank 0 of 1 counts 1") ||
			!strings.Contains(s.errs, "Horovod reads no variable of launch") {
			t.Errorf("%s ended with %d, want a world of one and a warning:\n%s%s", s.host, s.code, s.out, s.errs)
		}
	}
	line := refusal(t, h.run(t, append(job, strings.Fields("horovodrun -np 4 -H host0:2,host1:2 python "+
		filepath.Join(data, "horo.py"))...)))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	counted(t, 4, []said{ran("host0", h.command(ctx, t, h.lab.Hosts[0], line))})
}
