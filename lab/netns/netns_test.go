package netns_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/lab/netns"
)

// limit is the time limit of each command; each needs less than a second.
const limit = 20 * time.Second

func run(t *testing.T, h *netns.Host, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := h.Command(ctx, argv...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func TestHostsReachEachOtherByName(t *testing.T) {
	lab := netns.New(t, 2)
	if out, err := run(t, lab.Hosts[0], "getent", "hosts", "host1"); err != nil || !strings.HasPrefix(out, "10.77.0.2") {
		t.Errorf("host1 resolves to %q, %v; want 10.77.0.2", out, err)
	}
	if out, err := run(t, lab.Hosts[0], "bash", "-c", "exec 3<>/dev/tcp/host1/9"); err == nil ||
		!strings.Contains(out, "refused") {
		t.Errorf("connect to a closed port of host1: %q, %v; want refused, the answer of a reachable host", out, err)
	}
}

func TestNoHostFindsItsAddressByTheKernelName(t *testing.T) {
	lab := netns.New(t, 1)
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(t, lab.Hosts[0], "getent", "ahostsv4", name)
	if err != nil || !strings.Contains(out, "127.0.1.1") || strings.Contains(out, "10.77.0.1") {
		t.Errorf("%s resolves to %q, %v; want 127.0.1.1 only", name, out, err)
	}
}

func TestACutHostIsUnreachableUntilHealed(t *testing.T) {
	lab := netns.New(t, 2)
	lab.Hosts[1].Cut()
	connect := "exec 3<>/dev/tcp/host1/9"
	out, err := run(t, lab.Hosts[0], "timeout", "1", "bash", "-c", connect)
	if err == nil || strings.Contains(out, "refused") {
		t.Errorf("connect to a cut host: %q, %v; want no answer", out, err)
	}
	lab.Hosts[1].Heal()
	if out, _ := run(t, lab.Hosts[0], "timeout", "10", "bash", "-c", connect); !strings.Contains(out, "refused") {
		t.Errorf("connect to a healed host: %q; want refused", out)
	}
}

func TestAMutedHostReceivesAndItsAnswersAreLost(t *testing.T) {
	lab := netns.New(t, 3)
	mute := lab.Hosts[0]
	connect := "exec 3<>/dev/tcp/host0/9" // refused, if the refusal arrives
	received := func() string {
		t.Helper()
		out, err := run(t, mute, "awk", "/^Tcp: [0-9]/ {print $11}", "/proc/net/snmp") // segments received
		if err != nil || out == "" {
			t.Fatalf("segments of host0: %q, %v", out, err)
		}
		return out
	}
	mute.Mute(lab.Hosts[1])
	before := received()
	out, err := run(t, lab.Hosts[1], "timeout", "1", "bash", "-c", connect)
	if err == nil || strings.Contains(out, "refused") {
		t.Errorf("connect from the host that it is mute to: %q, %v; want no answer", out, err)
	}
	if after := received(); after == before {
		t.Errorf("host0 has received %s segments before and after; want more", after)
	}
	if out, _ := run(t, lab.Hosts[2], "timeout", "10", "bash", "-c", connect); !strings.Contains(out, "refused") {
		t.Errorf("connect from another host: %q; want refused", out)
	}
	mute.Unmute(lab.Hosts[1])
	if out, _ := run(t, lab.Hosts[1], "timeout", "10", "bash", "-c", connect); !strings.Contains(out, "refused") {
		t.Errorf("connect after that: %q; want refused", out)
	}
}

func TestADecoyIsSeenOnItsHostOnly(t *testing.T) {
	lab := netns.New(t, 2)
	lab.Hosts[0].Decoy("docker0", "172.17.0.1/16")
	if out, err := run(t, lab.Hosts[0], "ls", "/sys/class/net"); err != nil || !strings.Contains(out, "docker0") {
		t.Errorf("/sys/class/net of host0: %q, %v; want docker0 there", out, err)
	}
	if out, err := run(t, lab.Hosts[1], "ls", "/sys/class/net"); err != nil || strings.Contains(out, "docker0") {
		t.Errorf("/sys/class/net of host1: %q, %v; want no docker0", out, err)
	}
}

func TestALongCableDelaysPackets(t *testing.T) {
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("needs /dev/net/tun")
	}
	lab := netns.New(t, 2)
	lab.Hosts[1].Long(100*time.Millisecond, 0)
	began := time.Now()
	out, _ := run(t, lab.Hosts[0], "timeout", "10", "bash", "-c", "exec 3<>/dev/tcp/host1/9")
	// Both directions, and neither host knew the Ethernet address of the other.
	if took := time.Since(began); !strings.Contains(out, "refused") || took < 200*time.Millisecond {
		t.Errorf("connect: %q after %v; want refused after 200 ms or more", out, took)
	}
}

func TestASecondInterfaceReachesTheOthers(t *testing.T) {
	lab := netns.New(t, 2)
	for i, h := range lab.Hosts {
		h.NIC("eth1", "192.168.50."+string(rune('1'+i))+"/24")
	}
	out, _ := run(t, lab.Hosts[0], "timeout", "10", "bash", "-c", "exec 3<>/dev/tcp/192.168.50.2/9")
	if !strings.Contains(out, "refused") {
		t.Errorf("connect over it: %q; want refused, the answer of a reachable host", out)
	}
}

func TestFilesAndSignalsStayOnTheirHost(t *testing.T) {
	lab := netns.New(t, 2)
	a, b := lab.Hosts[0].Command(t.Context(), "sleep", "60"), lab.Hosts[1].Command(t.Context(), "sleep", "60")
	for _, c := range []*exec.Cmd{a, b} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for len(lab.Hosts[0].Processes()) == 0 { // ip-netns(8) has not entered it yet
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	if err := lab.Hosts[0].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = a.Wait()
	if got := a.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != syscall.SIGKILL {
		t.Errorf("the process of host0 ended with %v; want killed", got)
	}
	// host1's process still takes a signal of its own.
	if err := b.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = b.Wait()
	if got := b.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != syscall.SIGTERM {
		t.Errorf("the process of host1 ended with %v; want terminated by its own signal", got)
	}
	if out, err := run(t, lab.Hosts[0], "sh", "-c", "touch /dev/shm/x $TMPDIR/y && rm /dev/shm/x $TMPDIR/y"); err != nil {
		t.Errorf("write to /dev/shm and TMPDIR: %q, %v", out, err)
	}
	if _, err := os.Stat("/dev/shm/x"); err == nil {
		t.Error("a host's /dev/shm is the machine's")
	}
}

// failures is a testing.TB that notes errors instead of failing.
type failures struct {
	*testing.T
	cleanups []func()
	seen     []string
}

func (f *failures) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }
func (f *failures) Errorf(format string, a ...any) {
	f.seen = append(f.seen, format)
}

func TestLeftoversFailTheTest(t *testing.T) {
	f := &failures{T: t}
	lab := netns.New(f, 1)
	if out, err := run(t, lab.Hosts[0], "sh", "-c",
		"setsid sleep 60 >/dev/null 2>&1 </dev/null & touch /dev/shm/left"); err != nil {
		t.Fatalf("%q, %v", out, err)
	}
	for _, fn := range f.cleanups {
		fn()
	}
	got := strings.Join(f.seen, "\n")
	for _, want := range []string{"leftover process", "leftover file"} {
		if !strings.Contains(got, want) {
			t.Errorf("cleanup reported %q; want %q in it", got, want)
		}
	}
	if left := lab.Hosts[0].Processes(); len(left) > 0 {
		t.Errorf("cleanup left %q", left)
	}
}
