package roce

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"launch/fabric/verbs"
)

// verdict shortens the outcome of a case: "ok", "port-down", or "peer port-down" if the
// other end failed.
func verdict(r report) string {
	if r.Err == nil {
		return "ok"
	}
	return map[bool]string{true: "peer "}[r.Err.Peer] + string(r.Err.Cause)
}

func TestEachFaultIsNamedAtBothEndsWithinItsLimit(t *testing.T) {
	for _, tt := range []struct {
		name, server, client string
		text                 string // in the text of the end that failed
	}{
		{"loop", "ok", "ok", ""},
		{"peer", "ok", "ok", ""},
		{"memory of a GPU", "ok", "ok", ""},
		{"memory of one GPU", "ok", "ok", ""},
		{"memory of a GPU without peermem", "peer no-gpudirect", "no-gpudirect",
			"rxe0 or its driver does not support it"},
		{"gid not given", "ok", "ok", ""},
		{"gid not set", "peer no-gid", "no-gid", "no GID at index 9; set are 0 (RoCE v2 fe80::"},
		{"gid of another kind", "gid-differs", "gid-differs", "link-local"},
		{"gid without a route", "peer unreachable", "unreachable",
			"nothing arrives from rxe0 port 1 (RoCE v2 10.9.0.2, index 1) at rxe0 port 1 (RoCE v2 192.168.77.1, index 2)"},
		{"netdev mtu", "ok", "ok", ""},
		{"mtu set differently", "mtu-differs", "mtu-differs", "packets of 4096 bytes, the other one to 1024"},
		{"mtu larger than the path's", "peer large-lost", "large-lost",
			"messages of 64 bytes arrive and messages of 4096 do not"},
		{"peer dies", "peer-gone", "late", ""},
		{"port down", "peer port-down", "port-down", "rxe0 port 1 is down"},
		{"other port down", "port-down", "port-down", "the other end's rxe0 port 1 is down"},
		{"peer again", "ok", "ok", ""},
		{"memlock", "peer memlock", "memlock", "4 MiB must be locked, and RLIMIT_MEMLOCK is 64 KiB"},
		{"permission", "peer permission", "permission", "permission denied"},
		{"no uverbs node", "peer no-uverbs", "no-uverbs", "no /dev/infiniband/uverbs*"},
		{"device removed", "peer device-gone", "device-gone", "rxe0 no longer answers"},
		{"no device", "ok", "no-uverbs", ""},
		{"no module", "ok", "no-module", "ib_uverbs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c := both(t, tt.name)
			if strings.HasSuffix(tt.name, "port down") && (verdict(s) == "stuck" || verdict(c) == "stuck") {
				t.Skipf("Soft-RoCE's driver hung in a kernel as the link went down, and launch says so: %s %s", show(s), show(c))
			}
			if got := [2]string{verdict(s), verdict(c)}; got != [2]string{tt.server, tt.client} {
				t.Errorf("server reports %q and client %q, want %q and %q\nserver %s\nclient %s", got[0], got[1], tt.server,
					tt.client,
					show(s), show(c))
			}
			if tt.text != "" && (c.Err == nil || !strings.Contains(c.Err.Text, tt.text)) {
				t.Errorf("client reports %s, want %q in it", show(c), tt.text)
			}
			for _, r := range []report{s, c} {
				if r.Trouble != "" {
					t.Errorf("trouble in the laboratory: %s", r.Trouble)
				}
				if r.Seconds > limit.Seconds()+1 {
					t.Errorf("it took %.1f s, the limit is %v", r.Seconds, limit)
				}
			}
		})
	}
}

func TestBothEndsOfATestHaveTheSameFigures(t *testing.T) {
	s, c := both(t, "peer")
	if s.Run == nil || c.Run == nil || s.Err != nil || c.Err != nil {
		t.Fatalf("server %s\nclient %s", show(s), show(c))
	}
	if !slices.Equal(s.Run.Out, c.Run.Back) || !slices.Equal(s.Run.Back, c.Run.Out) ||
		!slices.Equal(s.Run.Pings, c.Run.Pings) {
		t.Errorf("server %s\nclient %s", show(s), show(c))
	}
	for i, n := range small.Sizes {
		for _, f := range []verbs.Flow{c.Run.Out[i], c.Run.Back[i]} {
			if f.Size != n || f.Messages != uint64(small.Iterations) || f.Speed <= 0 {
				t.Errorf("stream of %d bytes: %+v", n, f)
			}
		}
	}
	for i, n := range small.PingSizes {
		if l := c.Run.Pings[i]; l.Size != n || l.Pings != small.Pings || l.Min <= 0 || l.Median < l.Min || l.T99 < l.Median {
			t.Errorf("ping of %d bytes: %+v", n, l)
		}
	}
	if l := s.Run.Local; l.GID.String() != "10.9.0.1" || l.GIDType != "RoCE v2" || l.Index != 1 || l.PKey != "0xffff" {
		t.Errorf("the server's end is %+v, want GID 1 of 10.9.0.1 by RoCE v2, and partition key 0xffff", l)
	}
	if c.Run.MTU != 1024 || c.Run.QPs != 2 {
		t.Errorf("packets of %d bytes over %d connections, want 1024 over 2", c.Run.MTU, c.Run.QPs)
	}
}

func TestPortsOfUnequalMTUUseTheSmallerWithANote(t *testing.T) {
	_, c := both(t, "netdev mtu")
	if c.Run == nil || c.Run.MTU != 1024 || len(c.Run.Notes) != 1 || c.Run.Notes[0].Cause != verbs.MTUDiffers {
		t.Errorf("%s, want packets of 1024 bytes and a note", show(c))
	}
}

func TestDevicesHaveWhatTheKernelConfigured(t *testing.T) {
	s, _ := both(t, "query")
	if len(s.Devices) != 1 || len(s.Devices[0].Ports) != 1 {
		t.Fatalf("server %s, want one device with one port", show(s))
	}
	d, p := s.Devices[0], s.Devices[0].Ports[0]
	if d.Name != "rxe0" || !d.Opens || d.GUID != "5054:00ff:fe00:0001" || d.MaxQP == 0 || d.Unknown != "" {
		t.Errorf("device %+v", d)
	}
	if !p.Active() || p.Link != "Ethernet" || p.ActiveMTU != 1024 || p.MaxMTU != 4096 || p.Rate != 2.5 || p.Lanes != 1 ||
		p.Phys != 5 {
		t.Errorf("port %+v", p)
	}
}

func TestSixtyFourDevicesAnswerInTheTimeThatAStartHas(t *testing.T) {
	s, _ := both(t, "64 devices")
	n := 0
	for _, d := range s.Devices {
		if d.Opens && len(d.Ports) == 1 {
			n++
		}
	}
	if n != 64 || s.Trouble != "" {
		t.Errorf("%d of %d devices answered, want 64: %s %s", n, len(s.Devices), s.Note, s.Trouble)
	}
}

// The race detector ends a program that has a race with another status.
func TestNothingRacesInTheMachines(t *testing.T) {
	s, c := both(t, "race")
	for _, r := range []report{s, c} {
		if !strings.Contains(r.Note, "status 66") {
			t.Errorf("the race detector missed a deliberate race: %s", show(r))
		}
	}
	if _, err := rig(); err != nil {
		t.Error(err)
	}
}

func TestOpeningAThousandTimesIsCleanUnderTheSanitizersAndValgrind(t *testing.T) {
	if s, _ := both(t, "1000 times"); s.Trouble != "" {
		t.Error(s.Trouble)
	}
}

// A leak grows each time; other memory of a process grows now and then.
func TestOpeningAThousandTimesLeaksNothing(t *testing.T) {
	_, c := both(t, "1000 times")
	var kib, files []int
	for i, f := range strings.Fields(c.Note) {
		n, _ := strconv.Atoi(f)
		if i%2 == 0 {
			kib = append(kib, n)
		} else {
			files = append(files, n)
		}
	}
	if c.Err != nil || len(files) != 1+900/leakStep {
		t.Fatalf("client %s", show(c))
	}
	t.Logf("in %.0f s; after 100 times and each %d further ones: %d KiB resident, %d open files", c.Seconds, leakStep, kib,
		files)
	growth := math.MaxInt
	for i := range kib[1:] {
		growth = min(growth, kib[i+1]-kib[i])
	}
	if growth > leakStep/2 || slices.Max(files) > files[0] {
		t.Error("memory or open files grow with each time")
	}
}

func show(r report) string {
	b, _ := json.Marshal(r)
	return string(b)
}

// The program itself measures over real verbs.
func TestLaunchMeasuresOverVerbs(t *testing.T) {
	s, c := both(t, "launch bench")
	if s.Trouble != "" || c.Trouble != "" {
		t.Fatalf("server %s\n%s\nclient %s\n%s", s.Trouble, s.Note, c.Trouble, c.Note)
	}
	if !strings.Contains(c.Note, `"kind":"verbs"`) {
		t.Errorf("it was not measured by verbs:\n%s", c.Note)
	}
	m := regexp.MustCompile(`"out":([0-9.e+]+),"in":([0-9.e+]+)`).FindStringSubmatch(c.Note)
	if m == nil || m[1] == "0" || m[2] == "0" {
		t.Errorf("no speed in both directions: %q\n%s", m, c.Note)
	}
	t.Log(m)
}

func TestLaunchReportsARealPort(t *testing.T) {
	s, c := both(t, "launch metrics")
	for _, want := range []string{`launch_rdma_port_active{hca="rxe0",port="1"} 1`,
		`launch_rdma_port_events_total{counter="sent_pkts",hca="rxe0",port="1"}`} {
		if !strings.Contains(s.Note, want) {
			t.Errorf("launch metrics has no %s", want)
		}
	}
	if t.Failed() {
		t.Log(s.Trouble, s.Note)
	}
	if c.Trouble != "" {
		t.Errorf("%s\n%s", c.Trouble, c.Note)
	}
}

// A start tests a port before the job needs it.
func TestLaunchTriesARealPort(t *testing.T) {
	s, c := both(t, "launch check")
	for _, tt := range []struct {
		r    report
		want []string
	}{
		{s, []string{`"id":"rdma.loop","status":"ok"`, "came back unchanged", "status 0"}},
		{c, []string{`"id":"rdma.loop","status":"fail"`, "RLIMIT_MEMLOCK is 64 KiB", `"id":"limits.memlock","status":"skip"`,
			"status 65"}},
	} {
		for _, want := range tt.want {
			if !strings.Contains(tt.r.Note, want) {
				t.Errorf("no %q in %s%s", want, tt.r.Trouble, tt.r.Note)
			}
		}
	}
}
